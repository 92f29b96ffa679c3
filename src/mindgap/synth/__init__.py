"""Variants of real graphs, by the hundred thousand: small regions are cut and mutated, and merged into large graphs.

Comes in: graphs. Goes out: graphs, each with a description of a few hundred bytes from which it can be
made again. Knows no platform and no store.
"""
