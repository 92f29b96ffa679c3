"""Turns real models into graphs, and graphs into variants.

Comes in: the name of a model (`timm:resnet18`, `FILE.py:make`). Goes out: captured graphs, a catalogue of them, and
variants that are cut, mutated and merged from them. Must not know how a row is judged.
"""
