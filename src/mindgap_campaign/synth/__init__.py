"""Synthesises variants of real graphs: cuts small regions, mutates them, and merges them into large graphs.

Input: graphs. Output: graphs, each with a description of a few hundred bytes from which it can be
made again. Knows no platform and no store.
"""
