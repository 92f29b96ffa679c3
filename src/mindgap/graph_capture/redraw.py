"""Draws other values for the arguments of a program, of the kind that its operators document."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import numpy as np
import torch

from mindgap.aten.operators import facts
from mindgap.aten.tape import clone_strided
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Arg, Graph, Node, Ref, refs
from mindgap.graph.operators import traits
from mindgap.graph.operators.preconditions import Demand, Precondition, preconditions
from mindgap.graph_capture.recording import RecordedInput

#: Arithmetic with a number keeps the order of elements.
_KEEP_ORDER: Final = frozenset({"add", "sub"})
#: One factor for all elements keeps these properties of matrices.
_MATRICES: Final = frozenset({"hermitian", "positive definite", "triangular"})
#: What an operator demands of these arguments cannot be kept by drawing one of them alone.
_FIXED: Final = frozenset({"plane", "pivots", "at most"})
_ORDERED: Final = frozenset({"sorted", "offsets"})


#: What `redraw` changes: all values, floating-point ones, or these by a factor.
Change = Literal["all", "floats"] | float
#: Changes to try one after the other, each nearer to the given values. One factor for all of them keeps signs, orders
#: and what a program computes of matrices.
CHANGES: Final[tuple[Change, ...]] = ("all", "floats", 0.75, 1.001)


@dataclass(frozen=True)
class InputDemand:
    """What operators demand of the values of one graph input. `low`, `high`: the interval that its values are in."""

    demands: frozenset[Demand] = frozenset()
    low: float = -np.inf
    high: float = np.inf

    def with_row(self, row: Precondition) -> InputDemand:
        """Returns this demand and that of another precondition together."""
        return InputDemand(self.demands | frozenset((row.demand,)), max(self.low, row.low), min(self.high, row.high))


def redraw(
    tensors: Sequence[torch.Tensor],
    sources: Sequence[RecordedInput],
    change: Change = "all",
    demanded: Mapping[int, InputDemand] | None = None,
) -> list[torch.Tensor]:
    """Returns the same inputs with other values for the arguments.

    Floating-point values are drawn from the range of the given ones, or multiplied by the number `change`. With "all",
    integers and booleans are shuffled. `demanded`: by input, what the new values must keep where the given ones have
    it (`input_demands`).
    """
    redrawn: list[torch.Tensor] = []
    for index, (tensor, source) in enumerate(zip(tensors, sources, strict=True)):
        if source.role != "input" or tensor.numel() == 0 or (change != "all" and not is_real(tensor)):
            redrawn.append(tensor)
            continue
        generator = np.random.Generator(np.random.Philox(key=zlib.crc32(source.name.encode()) + index))
        array = to_numpy(tensor)
        demand = (demanded or {}).get(index, InputDemand())
        drawn = (
            _other_values(array, is_real(tensor), generator, demand)
            if isinstance(change, str)
            else (array * change).astype(array.dtype)
        )
        other = np.asarray(drawn)  # numpy makes 0-d arrays numbers
        redrawn.append(own_copy(to_torch(other)) if dense(tensor) else _with_layout_of(to_torch(other), tensor))
    return redrawn


def input_demands(graph: Graph) -> dict[int, InputDemand]:
    """Returns what the operators that read an input demand of its values, by input.

    An operand is followed back through views, copies, casts, concatenations and sums with a number.
    What a program computes from its inputs in another way is its own business.
    """
    demands: dict[int, InputDemand] = {}
    for node in graph.nodes:
        rows = preconditions(node.op)
        given = _arguments(node) if rows else {}
        for row in rows:
            operand = given.get(row.argument)
            if isinstance(operand, Ref) and _holds(row, given):
                spec = graph.values[operand.index]
                if spec is not None and (not row.kinds or spec.kind in row.kinds):
                    for index in _moved_inputs(graph, operand.index):
                        demands[index] = demands.get(index, InputDemand()).with_row(row)
    return demands


def _arguments(node: Node) -> dict[str, Arg]:
    return {**dict(zip(facts(node.op).arguments, node.args, strict=False)), **dict(node.kwargs)}


def _holds(row: Precondition, given: Mapping[str, Arg]) -> bool:
    if row.when and not given.get(row.when):
        return False
    return not row.unless or given.get(row.unless) in (None, False)


def _moved_inputs(graph: Graph, value: int) -> set[int]:
    """Returns the inputs of which a value has elements in their order."""
    numbers, left = set[int](), [value]
    while left:
        number = left.pop()
        producer = graph.producer[number]
        if producer < 0:
            numbers.add(number)
        elif _keeps_order(graph.nodes[producer]):
            left += [each for arg in graph.nodes[producer].args for each in refs(arg)]
    return numbers


def _keeps_order(node: Node) -> bool:
    known = traits(node.op)
    if known.hands_on or known.casts or node.op.split(".")[1] in ("clone", "contiguous"):
        return True
    return node.op.split(".")[1] in _KEEP_ORDER and len([ref for arg in node.args for ref in refs(arg)]) == 1


def _other_values(array: Any, real: bool, generator: np.random.Generator, demand: InputDemand) -> Any:
    if demand.demands & _FIXED:
        return array
    if demand.demands & _MATRICES:
        return (array * generator.uniform(0.5, 1.5)).astype(array.dtype)
    if demand.demands & _ORDERED and _is_sorted(array):
        return _other_sorted(array, real, generator)
    if not real:
        return generator.permutation(array.reshape(-1)).reshape(array.shape)
    other = _other_floats(array, generator)
    bounded = demand.low > -np.inf or demand.high < np.inf
    return np.clip(other.astype(np.float64), demand.low, demand.high).astype(array.dtype) if bounded else other


def _is_sorted(array: Any) -> bool:
    """Whether finite numbers never fall along the last dimension."""
    if array.ndim == 0 or array.dtype == np.bool_ or np.iscomplexobj(array):
        return False
    wide = array.astype(np.float64)
    return bool(np.isfinite(wide).all() and (np.diff(wide, axis=-1) >= 0).all())


def _other_sorted(array: Any, real: bool, generator: np.random.Generator) -> Any:
    """Draws sorted rows between the same first and last elements. Rows of different integers stay rows of different
    ones."""
    first, last = array[..., :1], array[..., -1:]
    share: Any = np.sort(cast(Any, generator.random(array.shape)), axis=-1)
    if real:
        low, high = first.astype(np.float64), last.astype(np.float64)
        drawn = np.clip(low + (high - low) * share, low, high)
    else:
        strict = bool((np.diff(array, axis=-1) > 0).all())
        steps = cast(Any, np.arange(array.shape[-1]) * int(strict))
        low, high = first.astype(np.int64), last.astype(np.int64)
        room = high - low - steps[-1]
        drawn = low + steps + np.minimum((share * (room + 1)).astype(np.int64), room)
    drawn = drawn.astype(array.dtype)
    drawn[..., :1], drawn[..., -1:] = first, last
    return drawn


def _other_floats(array: Any, generator: np.random.Generator) -> Any:
    if np.iscomplexobj(array):
        pairs = np.ascontiguousarray(array).view(np.float32 if array.dtype == np.complex64 else np.float64)
        return _other_floats(pairs, generator).view(array.dtype).reshape(array.shape)
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
    if low == high:
        low, high = (low * 0.5, low * 1.5) if low else (-1.0, 1.0)
    drawn = low + (high - low) * cast(Any, generator.random(array.shape))
    other = cast(Any, np.where(np.isfinite(wide), drawn, wide))
    return other.astype(array.dtype)


def _with_layout_of(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    laid = clone_strided(like.resolve_conj().resolve_neg())
    cells = tuple(slice(0, 1) if step == 0 else slice(None) for step in laid.stride())
    laid[cells].copy_(values[cells])
    return laid


def is_real(tensor: torch.Tensor) -> bool:
    """Whether it holds floating-point or complex numbers."""
    return tensor.is_floating_point() or tensor.is_complex()


def dense(tensor: torch.Tensor) -> bool:
    """Whether its memory holds its elements in order."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def own_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy with separate memory and the same strides."""
    return clone_strided(tensor.detach().resolve_conj().resolve_neg())
