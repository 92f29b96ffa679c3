"""Quotients and remainders."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

DIVISION = family(
    "division",
    ("reciprocal", Traits(complex_intermediates="magnitude")),
    (
        "floor_divide fmod remainder",
        Traits(promotes=True, undefined_where="integer division by zero"),
    ),
    (
        "div divide true_divide",
        Traits(promotes=True, undefined_where="integer division by zero", complex_intermediates="magnitude"),
    ),
)
