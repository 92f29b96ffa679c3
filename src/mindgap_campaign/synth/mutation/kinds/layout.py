"""Changes the memory layout of values: strides, gaps, offsets."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mindgap.aten.tape import written_inputs
from mindgap.graph import Arg, MemoryFormat, Permutation, Ref, TensorSpec
from mindgap_campaign.synth.mutation.dataflow import DataFlow, in_random_order
from mindgap_campaign.synth.mutation.edit import DraftCall, Edit, InputEdit, Rewrite
from mindgap_campaign.synth.mutation.rules import Rules
from mindgap_campaign.synth.mutation.schemas import repeat
from mindgap_campaign.synth.values.recipes import DRAWN

#: Inputs longer than this are not made longer still.
_LARGE: Final = 1 << 20


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Gives an input other strides, makes it a slice or overlapping windows of another input, or copies a value to
    another layout."""
    for way in rng.sample(_WAYS, len(_WAYS)):
        edits = way(flow, rng, rules)
        if edits:
            return edits
    return None


def _strided(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Makes an input channels-last, permuted, with gaps, or expanded."""
    for number in in_random_order(rng, range(len(flow.graph.inputs)), 6):
        given = flow.graph.inputs[number]
        if not isinstance(given.recipe, DRAWN) or layout_matters(flow, number, rules):
            continue
        stride = _another_stride(given.spec, rng, number in written_inputs(flow.graph))
        if stride is not None and stride != given.spec.stride:
            return (InputEdit(number, TensorSpec(given.spec.dtype, given.spec.shape, stride), given.recipe),)
    return None


def _another_stride(spec: TensorSpec, rng: random.Random, written: bool) -> tuple[int, ...] | None:
    rank, draw = len(spec.shape), rng.random()
    if sum(size > 1 for size in spec.shape) < 1 or 0 in spec.shape:
        return None
    if rank in (4, 5) and draw < 0.4:
        return dense_stride(spec.shape, (0, *range(2, rank), 1))
    if draw < 0.65 and rank > 1:
        return dense_stride(spec.shape, rng.sample(range(rank), rank))
    if draw < 0.85 or written:
        step = rng.choice((2, 3))
        return tuple(s * step for s in spec.stride) if spec.numel <= _LARGE else None
    wide = [dim for dim, size in enumerate(spec.shape) if size > 1]
    still = rng.choice(wide)
    return tuple(0 if dim == still else s for dim, s in enumerate(spec.stride))


def dense_stride(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Returns strides without gaps, for dimensions ordered from slowest to fastest."""
    stride, step = [0] * len(shape), 1
    for dim in reversed(order):
        stride[dim] = step
        step *= max(shape[dim], 1)
    return tuple(stride)


def _sliced(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Enlarges an input; its readers read a slice, with a storage offset and gaps between rows."""
    for number, spec in _replaceable(flow, rng, rules):
        rank = len(spec.shape)
        dim = rng.randrange(rank)
        step = rng.choice((1, 1, 2))
        start, size = rng.randint(1, 3), spec.shape[dim]
        whole = start + size * step + rng.randint(0, 2)
        if size == 0 or spec.numel // size * whole > _LARGE:
            continue
        shape = (*spec.shape[:dim], whole, *spec.shape[dim + 1 :])
        order = sorted(range(rank), key=lambda at: -spec.stride[at])
        larger = TensorSpec(spec.dtype, shape, dense_stride(shape, order))
        end = start + (size - 1) * step + 1
        return _viewed(flow, number, larger, "aten.slice.Tensor", dim, start, end, step)
    return None


def _overlapping(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Makes an input a row of values; its readers read windows of it that overlap."""
    for number, spec in _replaceable(flow, rng, rules):
        stride = list(dense_stride(spec.shape, range(len(spec.shape))))
        if len(stride) < 2 or not spec.numel or number in written_inputs(flow.graph):
            continue
        stride[-2] = rng.randint(1, stride[-2])
        reach = 1 + sum((size - 1) * step for size, step in zip(spec.shape, stride, strict=True))
        row = TensorSpec(spec.dtype, (reach,), (1,))
        return _viewed(flow, number, row, "aten.as_strided.default", spec.shape, tuple(stride))
    return None


def _replaceable(flow: DataFlow, rng: random.Random, rules: Rules) -> Iterator[tuple[int, TensorSpec]]:
    """Yields inputs with dimensions, in place of which their few readers may read a view of another."""
    for number in in_random_order(rng, range(len(flow.graph.inputs)), 6):
        given = flow.graph.inputs[number]
        # A part of a permutation is none.
        drawn = isinstance(given.recipe, DRAWN) and not isinstance(given.recipe, Permutation) and given.spec.shape
        few = 0 < len(flow.readers[number]) <= 3 and number not in flow.output_values
        if drawn and few and not layout_matters(flow, number, rules):
            yield number, given.spec


def _viewed(flow: DataFlow, number: int, spec: TensorSpec, op: str, *args: Arg) -> tuple[Edit, ...]:
    """Gives an input another spec. Its readers read a view of it."""
    view = DraftCall(op, (Ref(number), *args))
    readers = reversed(flow.readers[number])
    given = InputEdit(number, spec, flow.graph.inputs[number].recipe)
    return (given, *(_insert_before(flow, reader, (view,), {number: Ref(-1)}) for reader in readers))


def _relaid(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Copies a node's result to another memory format or dimension order for its readers."""
    for index in in_random_order(rng, range(len(flow.graph.nodes)), 8):
        spec = flow.result(index)
        if spec is None or len(spec.shape) < 2 or spec.numel < 2:
            continue
        if layout_matters(flow, flow.graph.first_value[index], rules):
            continue
        steps = _copied(spec, rng)
        node = flow.graph.nodes[index]
        return (Rewrite(index, (repeat(node), *steps), (Ref(-1 - len(steps)),)),)
    return None


def _copied(spec: TensorSpec, rng: random.Random) -> tuple[DraftCall, ...]:
    """Returns steps that copy `Ref(-1)` to another layout."""
    rank = len(spec.shape)
    if rank in (4, 5) and rng.random() < 0.5:
        name = "channels_last" if rank == 4 else "channels_last_3d"
        return (DraftCall("aten.clone.default", (Ref(-1),), (("memory_format", MemoryFormat(name)),)),)
    order = rng.sample(range(rank), rank)
    back = sorted(range(rank), key=order.__getitem__)
    rows = (("memory_format", MemoryFormat("contiguous_format")),)
    return (
        DraftCall("aten.permute.default", (Ref(-1), tuple(order))),
        DraftCall("aten.clone.default", (Ref(-2),), rows),
        DraftCall("aten.permute.default", (Ref(-3), tuple(back))),
    )


def _insert_before(flow: DataFlow, index: int, steps: tuple[DraftCall, ...], swaps: dict[int, Ref]) -> Rewrite:
    """Inserts steps before the node, which reads their results."""
    node = flow.graph.nodes[index]
    base = sum(step.slots for step in steps)
    results = tuple(Ref(-1 - base - slot) for slot in range(len(node.outputs)))
    return Rewrite(index, (*steps, repeat(node, swaps)), results)


def layout_matters(flow: DataFlow, value: int, rules: Rules) -> bool:
    """Tells whether an operator that requires certain strides reads the value, or a result that keeps them."""
    graph = flow.graph
    seen, left = {value}, [value]
    while left:
        for reader in flow.readers[left.pop()]:
            node = graph.nodes[reader]
            if node.op in rules.layout_bound:
                return True
            if node.op not in rules.relays:
                made = [number for number in graph.results(reader) if number not in seen]
                seen.update(made)
                left += made
    return False


_Way = Callable[[DataFlow, random.Random, Rules], "tuple[Edit, ...] | None"]
_WAYS: Final[list[_Way]] = [_strided, _sliced, _overlapping, _relaid]
