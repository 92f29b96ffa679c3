"""Bitwise and logical operators, and arithmetic of whole numbers only."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

INTEGERS = family(
    "integers",
    ("__lshift__ __rshift__ bitwise_left_shift bitwise_right_shift", Traits(undefined_where="shift past the width")),
    (
        "bitwise_and bitwise_not bitwise_or bitwise_xor gcd hash_tensor lcm logical_and logical_not "
        "logical_or logical_xor",
        Traits(),
    ),
)
