"""Finds the scalar operands of an operator that an implementation may round to the dtype of the result first.

`x + 0.1` with x in bfloat16 is bfloat16 by PyTorch's type promotion, which does not define when 0.1 is rounded. Eager
PyTorch rounds it first in some operators and keeps it in float32 in others; compilers do either. A Python number and a
0-d tensor of a wider dtype are alike in this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.operators import overload
from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.aten.torch_private.overloads import schema_of
from mindgap.graph import Arg, Graph, Node, Ref
from mindgap.graph.operators import traits
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real, widen

#: Of so many scalars every combination is tried, of more only one dtype for all.
_MOST_COMBINED: Final = 2
#: Types of arguments that stand for an operand: `Scalar`, and a number in the place of a tensor. `eps` is a `float`.
_OPERANDS: Final = frozenset({"number", "Optional[number]", "Tensor"})


@dataclass(frozen=True, slots=True)
class ScalarOperand:
    """A number or a 0-d tensor that is wider than what it is combined with.

    `place`: its position, or its name as a keyword. `own`: its dtype; empty for a number. `dtype`: of the result, or of
    the other operand of a comparison.
    """

    place: int | str
    own: str
    dtype: str

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that it may be rounded to: none (""), float32 on the way to 16 bits, that of the result."""
        wide = ("", "float32") if FORMATS[self.dtype].narrow and self.own != "float32" else ("",)
        return (*wide, self.dtype)


def scalar_operands(graph: Graph, node: Node) -> tuple[ScalarOperand, ...]:
    """Returns the scalar operands of a node that are wider than what they are combined with."""
    dtype = _combined_dtype(graph, node)
    if not dtype or traits(node.op).casts:
        return ()
    arguments = schema_of(overload(node.op)).arguments
    types = {place: str(a.type) for position, a in enumerate(arguments) for place in (position, a.name)}
    given: Iterator[tuple[int | str, Arg]] = itertools.chain(enumerate(node.args), node.kwargs)
    operands: list[ScalarOperand] = []
    for place, arg in given:
        if types.get(place) in _OPERANDS and (own := _own_dtype(graph, arg, dtype)) is not None:
            operands.append(ScalarOperand(place, own, dtype))
    return tuple(operands)


def _combined_dtype(graph: Graph, node: Node) -> str:
    """The dtype of the float result, or of the operands of one dimension or more; empty where there is none."""
    declared = next((spec.dtype for spec in node.outputs if spec is not None and is_real(spec.dtype)), "")
    specs = [graph.values[arg.index] for arg in node.args if isinstance(arg, Ref)]
    arrays = [spec.dtype for spec in specs if spec is not None and spec.shape and is_real(spec.dtype)]
    if not arrays:
        return ""
    dtype = declared or min(arrays, key=lambda name: FORMATS[name].u)
    return "" if dtype.startswith("complex") else dtype


def _own_dtype(graph: Graph, arg: Arg, dtype: str) -> str | None:
    """The dtype of a scalar that is wider, None of any other argument. A number counts where the result is narrow."""
    if isinstance(arg, float):
        return "" if FORMATS[dtype].narrow and _rounded(arg, dtype) != arg else None
    spec = graph.values[arg.index] if isinstance(arg, Ref) else None
    if spec is None or spec.shape or not is_real(spec.dtype) or spec.dtype.startswith("complex"):
        return None
    return spec.dtype if FORMATS[spec.dtype].u < FORMATS[dtype].u else None


def roundings(scalars: Sequence[ScalarOperand]) -> Iterator[tuple[str, ...]]:
    """Yields a dtype for each scalar, "" for one that stays as it is: that of all first."""
    if len(scalars) <= _MOST_COMBINED:
        yield from itertools.product(*(scalar.dtypes for scalar in scalars))
    else:
        yield from (tuple(scalar.dtypes[at] for scalar in scalars) for at in (0, -1))


def with_roundings(
    scalars: Sequence[ScalarOperand], dtypes: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Returns bound arguments with these scalars rounded."""
    args, kwargs = list(args), dict(kwargs)
    for scalar, dtype in zip(scalars, dtypes, strict=True):
        if not dtype:
            continue
        if isinstance(scalar.place, int):
            args[scalar.place] = _rounded(args[scalar.place], dtype)
        else:
            kwargs[scalar.place] = _rounded(kwargs[scalar.place], dtype)
    return args, kwargs


def _rounded(value: Any, dtype: str) -> Any:
    if isinstance(value, torch.Tensor):
        return widen(value.to(TORCH_DTYPES[dtype]))
    return float(torch.tensor(float(value), dtype=torch.float64).to(TORCH_DTYPES[dtype]))
