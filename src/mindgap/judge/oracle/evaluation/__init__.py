"""Operators evaluated in float64.

Comes in: a functional graph or one of its nodes, and values. Goes out: results in float64, and where an operator has no
float64 form, why. Knows nothing of error bounds.
"""
