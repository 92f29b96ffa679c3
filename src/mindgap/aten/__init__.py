"""Runs graphs as PyTorch calls: resolves operator names to callables and values to tensors.

Comes in: a `Graph` and tensors. Goes out: tensors, a functional form of the graph, facts read from operator
schemas (what mutates, what aliases). Knows nothing of platforms; capture, the torch platforms and the oracle
all run graphs through it.
"""
