"""Tensors made from numbers: constants, ranges, uninitialised memory."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

CREATION = family(
    "creation",
    ("empty empty_like empty_permuted empty_strided new_empty new_empty_strided", Traits(returns_uninitialised=True)),
    (
        "_efficientzerotensor arange complex eye fill full full_like linspace logspace new_full new_ones "
        "new_zeros ones ones_like polar range scalar_tensor tril_indices triu_indices zero zeros zeros_like",
        Traits(),
    ),
)
