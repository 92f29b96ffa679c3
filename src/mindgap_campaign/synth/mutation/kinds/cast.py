"""Changes dtypes: one value through another dtype and back, all inputs of a dtype, one input, or the width of
indices."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mindgap.aten.operators import facts
from mindgap.graph import Arg, DType, Ref, UnknownOperator
from mindgap_campaign.synth.mutation.dataflow import DataFlow, in_random_order
from mindgap_campaign.synth.mutation.edit import DraftCall, Edit, InputEdit, Rewrite
from mindgap_campaign.synth.mutation.rules import Rules
from mindgap_campaign.synth.mutation.schemas import bind, repeat
from mindgap_campaign.synth.values.constraints import ValueConstraint, constraints_of
from mindgap_campaign.synth.values.recipes import DRAWN, fits, recipe_for
from mindgap_campaign.synth.values.rules import value_rules

#: Where a float goes and comes back from.
_THROUGH: Final = {
    "float32": ("bfloat16", "float16", "float64"),
    "float64": ("float32",),
    "bfloat16": ("float32", "float16"),
    "float16": ("float32", "bfloat16"),
}
#: What inputs get instead, with how often. Which operators take it, the trial shows.
_OTHERS: Final = {
    "bfloat16": 5, "float16": 4, "float64": 4, "float32": 2, "uint8": 3, "int8": 2, "int32": 2, "int64": 2, "bool": 2,
    "int16": 1, "complex64": 1,
}  # fmt: skip


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Casts a value to another dtype and back, all inputs of a dtype, one input, or an index operand."""
    # Of one operator, a value that is rounded first is another number only.
    first = _whole if len(flow.graph.nodes) == 1 else rng.choices(list(_WAYS), list(_WAYS.values()))[0]
    for way in sorted(_WAYS, key=lambda way: way is not first):
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
    """Replaces a dtype by another in every input and argument."""
    return _replaced(flow, rng, rules, lambda numbers: numbers)


def _one(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Replaces the dtype of one of several inputs: operands are promoted, or are of several dtypes."""
    return _replaced(flow, rng, rules, lambda numbers: [rng.choice(numbers)]) if len(flow.graph.inputs) > 1 else None


def _replaced(
    flow: DataFlow, rng: random.Random, rules: Rules, chosen: Callable[[list[int]], list[int]]
) -> tuple[Edit, ...] | None:
    graph = flow.graph
    dtypes = sorted({given.spec.dtype for given in graph.inputs})
    if not dtypes:
        return None
    old = "float32" if "float32" in dtypes else rng.choice(dtypes)
    new = rng.choice([dtype for dtype in _OTHERS for _ in range(_OTHERS[dtype]) if dtype != old])
    numbers = [number for number, given in enumerate(graph.inputs) if given.spec.dtype == old]
    try:
        needs = constraints_of(graph, value_rules()).of
    except UnknownOperator:
        return None
    replaced = chosen(numbers)
    edits: list[Edit] = []
    for number in replaced:
        spec, recipe = replace(graph.inputs[number].spec, dtype=new), graph.inputs[number].recipe
        if not isinstance(recipe, DRAWN) or not fits(spec, recipe):
            recipe = recipe_for(spec, needs.get(number, ValueConstraint()), number)
        edits.append(InputEdit(number, spec, recipe))
    for index, node in enumerate(graph.nodes if replaced == numbers else ()):
        args = tuple(_renamed(arg, old, new) for arg in node.args)
        kwargs = tuple((name, _renamed(arg, old, new)) for name, arg in node.kwargs)
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


def _renamed(arg: Arg, old: str, new: str) -> Arg:
    return DType(new) if arg == DType(old) else arg


_Way = Callable[[DataFlow, random.Random, Rules], "tuple[Edit, ...] | None"]
#: Each way with how often it is tried first.
_WAYS: Final[dict[_Way, int]] = {_round_trip: 8, _whole: 7, _one: 3, _index: 2}
