"""Changes dtypes: one value through another dtype and back, a whole graph, or the width of indices."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from mindgap.aten.operators import facts
from mindgap.graph import Arg, Constant, DType, Integers, Normal, Permutation, Ref, TensorSpec, Uniform
from mindgap_campaign.synth.mutation.dataflow import DataFlow, in_random_order
from mindgap_campaign.synth.mutation.edit import DraftCall, Edit, InputEdit, Rewrite
from mindgap_campaign.synth.mutation.rules import Rules
from mindgap_campaign.synth.mutation.schemas import bind, repeat

#: Where a float goes and comes back from.
_THROUGH: Final = {
    "float32": ("bfloat16", "float16", "float64"),
    "float64": ("float32",),
    "bfloat16": ("float32", "float16"),
    "float16": ("float32", "bfloat16"),
}
#: What a graph of float32 is given instead, with how often.
_WHOLE: Final = (("bfloat16", 4), ("float64", 4), ("float16", 2))


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Casts a value to another dtype and back (most often), all float inputs, or an index operand."""
    ways: list[_Way] = [_round_trip, _whole, _index]
    draw = rng.random()
    ways.sort(key=lambda way: way is not (_round_trip if draw < 0.6 else _whole if draw < 0.85 else _index))
    for way in ways:
        edits = way(flow, rng, rules)
        if edits:
            return edits
    return None


def _round_trip(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Casts a value to another dtype and back for one of its readers."""
    for index in in_random_order(rng, range(len(flow.graph.nodes))):
        node = flow.graph.nodes[index]
        written = facts(node.op).mutates
        named = [arg for position, arg in enumerate(node.args) if isinstance(arg, Ref) and position not in written]
        for operand in in_random_order(rng, named, 2):
            spec = flow.spec(operand)
            if spec is None or spec.dtype not in _THROUGH:
                continue
            there = _cast(operand, rng.choice(_THROUGH[spec.dtype]))
            back = _cast(Ref(-1), spec.dtype)
            steps = (there, back, repeat(node, {operand.index: Ref(-2)}))
            results = tuple(Ref(-3 - slot) for slot in range(len(node.outputs)))
            return (Rewrite(index, steps, results),)
    return None


def _whole(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Replaces float32 by another float dtype in every input and argument."""
    names = [name for name, _ in _WHOLE]
    other = rng.choices(names, [weight for _, weight in _WHOLE])[0]
    edits: list[Edit] = []
    for number, given in enumerate(flow.graph.inputs):
        if given.spec.dtype == "float32":
            if not isinstance(given.recipe, (Uniform, Normal, Constant, Integers, Permutation)):
                return None
            edits.append(InputEdit(number, TensorSpec(other, given.spec.shape, given.spec.stride), given.recipe))
    if not edits:
        return None
    for index, node in enumerate(flow.graph.nodes):
        if other != "float64" and node.op in rules.no_half:
            return None
        args = tuple(_renamed(arg, other) for arg in node.args)
        kwargs = tuple((name, _renamed(arg, other)) for name, arg in node.kwargs)
        if args != node.args or kwargs != node.kwargs:
            results = tuple(Ref(-1 - slot) for slot in range(len(node.outputs)))
            edits.append(Rewrite(index, (DraftCall(node.op, args, kwargs, len(node.outputs)),), results))
    return tuple(edits)


def _index(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Replaces 64-bit by 32-bit indices, or the reverse, where the operator accepts both."""
    candidates = [index for index, node in enumerate(flow.graph.nodes) if node.op in rules.indices]
    for index in in_random_order(rng, candidates):
        node = flow.graph.nodes[index]
        given = bind(node)
        swaps: dict[int, Ref] = {}
        steps: list[DraftCall] = []
        for name in rules.indices[node.op]:
            value = given.get(name)
            for operand in value if isinstance(value, tuple) else (value,):
                spec = flow.spec(operand)
                if isinstance(operand, Ref) and spec is not None and spec.dtype in ("int32", "int64"):
                    steps.append(_cast(operand, "int32" if spec.dtype == "int64" else "int64"))
                    swaps[operand.index] = Ref(-len(steps))
        if steps:
            base = len(steps)
            results = tuple(Ref(-1 - base - slot) for slot in range(len(node.outputs)))
            return (Rewrite(index, (*steps, repeat(node, swaps)), results),)
    return None


def _cast(operand: Ref, dtype: str) -> DraftCall:
    return DraftCall("aten._to_copy.default", (operand,), (("dtype", DType(dtype)),))


def _renamed(arg: Arg, other: str) -> Arg:
    return DType(other) if arg == DType("float32") else arg


_Way = Callable[[DataFlow, random.Random, Rules], "tuple[Edit, ...] | None"]
