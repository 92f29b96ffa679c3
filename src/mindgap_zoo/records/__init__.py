"""Opens recorded calls of real models (GraphNet) from a Parquet file or from folders of Python files.

Comes in: JSON or Python text of unknown origin. Goes out: a program that replays the calls on drawn tensors. The text
is parsed and never executed. Only functions of an allow-list are called. Memory is estimated before it is taken.
"""
