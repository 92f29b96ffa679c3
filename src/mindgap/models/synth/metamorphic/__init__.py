"""Makes mutants that equal their original by construction.

Input: a graph with known specs. Output: drafts with the relation (exact, or up to rounding) of their outputs to the
original's. Knows no platform: `mindgap.diff` runs and judges the mutants.
"""
