"""Comparisons and tests of elements: results are booleans."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

COMPARISONS = family(
    "comparisons",
    ("eq ge greater greater_equal gt le less less_equal lt ne not_equal", Traits(decides="comparison", promotes=True)),
    ("heaviside is_same_size isclose isfinite isin isinf isnan isneginf isposinf isreal signbit", Traits()),
)
