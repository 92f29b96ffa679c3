"""Measures what platforms run, and whether a result depends on batch, position, load or repetition.

Comes in: platforms, samples of operators, a package's source. Goes out: coverage, portability of code, invariance,
repeats, decoding and servers, as tables, pages and stores. Imports `mindgap` and `mindgap_zoo` alone.
"""
