"""Equivalence classes of arrays: how many bits two arrays share, the dendrogram of several, and digests of it.

Comes in: arrays. Goes out: classes, dendrograms, digests. Knows no platform, graph or framework.
"""
