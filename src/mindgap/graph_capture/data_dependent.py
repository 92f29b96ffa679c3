"""Knows the operators whose result depends on data in its size, or is a number for Python code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from mindgap.aten.torch_private.pre_dispatch import tensors_in
from mindgap.graph.graph import DecisionKind

#: Operators that give Python code the value of a tensor.
READS: Final = frozenset({"aten._local_scalar_dense.default", "aten.item.default", "aten.is_nonzero.default"})
#: Operators whose result's size depends on the data of some operands only, and the positions of those.
SIZED_BY: Final[Mapping[str, set[int]]] = {
    "aten.index.Tensor": {1},
    "aten.masked_select.default": {1},
    "aten.repeat_interleave.self_Tensor": {1},
    "aten.ctc_loss.Tensor": {2, 3},
    "aten._pack_padded_sequence.default": {1},
}
#: Operators whose result has an element for each of a mask.
_OF_MASKS: Final = frozenset({
    "aten.index.Tensor", "aten.masked_select.default", "aten.nonzero.default", "aten.nonzero_numpy.default",
    "aten.argwhere.default", "aten.where.default",
})  # fmt: skip
#: Operators whose result has as many rows as their deciding operands sum up to.
_OF_COUNTS: Final = frozenset({
    "aten.repeat_interleave.self_Tensor", "aten.repeat_interleave.Tensor", "aten._pack_padded_sequence.default",
})  # fmt: skip
#: Operators that return several tensors, and the position of the one whose size depends on data.
_SIZED: Final = {"aten.linalg_lstsq.default": 1}


def gives_tensors(func: Any) -> bool:
    """Whether an operator returns tensors, by its schema."""
    return any("Tensor" in str(each.type) for each in func._schema.returns)


def deciding_tensors(
    name: str, operands: Sequence[Any], results: Sequence[torch.Tensor | None]
) -> tuple[DecisionKind, list[torch.Tensor]]:
    """Returns what decides the size of a result: masks and counts among the operands, or else the result itself.

    `name`: of the operator. `operands`: those whose data may decide.
    """
    sums = list(tensors_in(operands))
    if sums and (name in _OF_COUNTS or (name in _OF_MASKS and all(each.dtype == torch.bool for each in sums))):
        return "count", sums
    sized = results[_SIZED.get(name, 0)]
    return "size", [sized] if sized is not None else []
