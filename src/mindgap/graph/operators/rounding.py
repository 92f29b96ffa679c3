"""Rounding to whole numbers, sign, and access to the parts of a number."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

ROUNDING = family(
    "rounding",
    ("nextafter", Traits(depends_on_dtype=True)),
    ("sgn", Traits(rounds_to_steps=True, complex_intermediates="magnitude")),
    ("ceil fix floor round sign trunc", Traits(rounds_to_steps=True)),
    ("copysign frac frexp ldexp nan_to_num", Traits()),
)
