"""Conversions between dtypes."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

CASTS = family(
    "casts",
    ("copy", Traits(casts=True)),
    ("_to_copy to type_as", Traits(hands_on=True, casts=True)),
    ("view.dtype", Traits(hands_on=True, depends_on_dtype=True)),
    ("to_dense", Traits()),
)
