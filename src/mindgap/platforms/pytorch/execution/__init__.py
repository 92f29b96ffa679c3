"""Runs a graph operator by operator, and what every PyTorch executable needs.

Comes in: a `Graph` and numpy arrays. Goes out: numpy arrays. It must not know a compiler.
"""
