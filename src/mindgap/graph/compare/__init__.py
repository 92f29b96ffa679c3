"""Outputs as arrays come in; digests, metrics, tolerance profiles, equivalence classes and dendrograms go out.

Knows how two arrays differ and in which words a comparison ends, and never how an array was made: no platform,
no graph's wiring, no framework. The rule that turns outputs into a verdict is the oracle's.
"""
