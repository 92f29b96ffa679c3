"""Asks platforms what they run, and whether a result depends on what is beside it.

Comes in: platforms, samples of operators, a package's source. Goes out: coverage, portability of code, invariance,
repeats and decoding, as tables, pages and stores. Imports `mindgap` and `mindgap_zoo` alone.
"""
