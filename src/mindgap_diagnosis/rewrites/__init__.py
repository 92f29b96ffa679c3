"""Compares two ONNX files of one model: before and after an optimiser, a simplifier, a quantiser, a converter.

Comes in: two files, the inputs of a run. Goes out: what happened to nodes and constants, and the first value that the
two files compute differently. Whether outputs differ by more than rounding is decided elsewhere, by the old file.
"""
