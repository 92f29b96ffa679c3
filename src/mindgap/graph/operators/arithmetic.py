"""Elementwise arithmetic and elementary functions."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

ARITHMETIC = family(
    "arithmetic",
    ("cos exp expm1 sin tan", Traits(complex_intermediates="exponential")),
    (
        "acos acosh angle arccos arcsin arctan asin asinh atan atanh log rsqrt sqrt square",
        Traits(complex_intermediates="magnitude"),
    ),
    ("cosh sinh", Traits(intermediates="elementwise", complex_intermediates="exponential")),
    ("logaddexp logaddexp2", Traits(intermediates="elementwise")),
    ("fmax fmin maximum minimum", Traits(moves_data=True, non_smooth="bent", promotes=True)),
    ("abs absolute neg negative positive", Traits(moves_data=True)),
    ("clamp clamp_max clamp_min clip", Traits(non_smooth="bent")),
    ("pow", Traits(promotes=True, complex_intermediates="exponential")),
    ("mul multiply", Traits(promotes=True, complex_intermediates="magnitude")),
    ("lerp", Traits(promotes=True, intermediates="elementwise")),
    ("addcdiv addcmul", Traits(promotes=True, intermediates="elementwise", complex_intermediates="magnitude")),
    ("add rsub sub subtract", Traits(promotes=True, intermediates="scaled operand")),
    ("arctan2 atan2 hypot", Traits(promotes=True)),
    (
        "deg2rad diff exp2 float_power gradient log10 log1p log2 rad2deg",
        Traits(),
    ),
)
