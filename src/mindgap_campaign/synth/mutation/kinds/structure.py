"""Inserts, deletes and duplicates nodes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Final

from mindgap.aten.operators import facts
from mindgap.graph import MemoryFormat, Ref
from mindgap_campaign.synth.mutation.dataflow import DataFlow, in_random_order
from mindgap_campaign.synth.mutation.edit import DraftCall, Edit, Rewrite
from mindgap_campaign.synth.mutation.rules import Rules
from mindgap_campaign.synth.mutation.schemas import repeat


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Inserts (half of the time), deletes or duplicates a node."""
    ways: list[_Way] = rng.sample(_WAYS, len(_WAYS))
    if rng.random() < 0.5:
        ways.insert(0, _insert)
    for way in ways:
        for index in in_random_order(rng, range(len(flow.graph.nodes)), 6):
            edit = way(flow, index, rng, rules)
            if edit is not None:
                return (edit,)
    return None


def _insert(flow: DataFlow, index: int, rng: random.Random, rules: Rules) -> Rewrite | None:
    """Inserts a unary operator, a copy, or a view to one dimension and back, between a node and its readers."""
    spec, node = flow.result(index), flow.graph.nodes[index]
    if spec is None:
        return None
    choice = rng.random()
    if choice < 0.7:
        names = rules.insertions.get(spec.kind, ())
        if not names:
            return None
        steps = (DraftCall(rng.choice(names), (Ref(-1),)),)
    elif choice < 0.85:
        memory = MemoryFormat("contiguous_format")
        kwargs = (("memory_format", memory),) if rng.random() < 0.5 else ()
        steps = (DraftCall("aten.clone.default", (Ref(-1),), kwargs),)
    else:
        flat = (math.prod(spec.shape),) if rng.random() < 0.5 else (1, *spec.shape)
        steps = (
            DraftCall("aten.reshape.default", (Ref(-1), flat)),
            DraftCall("aten.view.default", (Ref(-2), spec.shape)),
        )
    return Rewrite(index, (repeat(node), *steps), (Ref(-1 - len(steps)),))


def _delete(flow: DataFlow, index: int, rng: random.Random, rules: Rules) -> Rewrite | None:
    """Deletes a node. Its readers read its first operand, which has the same shape and dtype."""
    spec, node = flow.result(index), flow.graph.nodes[index]
    operand = node.args[0] if node.args else None
    before = flow.spec(operand)
    if not isinstance(operand, Ref) or spec is None or before is None or len(flow.graph.nodes) < 2:
        return None
    if (before.dtype, before.shape) != (spec.dtype, spec.shape):
        return None
    return Rewrite(index, (), (operand,))


def _duplicate(flow: DataFlow, index: int, rng: random.Random, rules: Rules) -> Rewrite | None:
    """Duplicates a node; the second result becomes an output. Not for nodes that write."""
    spec, node = flow.result(index), flow.graph.nodes[index]
    if spec is None or facts(node.op).mutates:
        return None
    return Rewrite(index, (repeat(node), repeat(node)), (Ref(-1),), (1,))


_Way = Callable[[DataFlow, int, random.Random, Rules], Rewrite | None]
_WAYS: Final[list[_Way]] = [_insert, _delete, _duplicate]
