"""Merges regions into large graphs (variants).

Input: a pool of regions. Output: variants (descriptions of a few hundred bytes) and their graphs. Runs nothing: it
relies on the statistics that each region's trial run recorded.
"""
