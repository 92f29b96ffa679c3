"""Replaces out-of-place operators by in-place ones, and the reverse."""

from __future__ import annotations

import random
from functools import cache

from mindgap.aten.counterpart import counterpart
from mindgap.aten.operators import facts, overload
from mindgap.aten.torch_private.overloads import schema_of
from mindgap.graph import Arg, GraphError, Ref, UnknownOperator, kind_of
from mindgap_campaign.synth.mutation.dataflow import DataFlow, in_random_order
from mindgap_campaign.synth.mutation.edit import DraftCall, Edit, Rewrite
from mindgap_campaign.synth.mutation.rules import Rules

#: How often a write is put where something reads the old contents later.
_DELIBERATE = 0.25


@cache
def in_place_counterpart(op: str) -> str | None:
    """Returns the in-place overload of a functional one with the same arguments, or the reverse; None if none.

    Overloads that write elsewhere than to their first argument, and those that change its shape, have none.
    """
    try:
        if facts(op).mutates:
            return counterpart(op).op or None
        if facts(op).returns != 1 or facts(op).views:
            return None
    except (UnknownOperator, GraphError):
        return None
    namespace, packet, variant = op.split(".")
    written = f"{namespace}.{packet}_.{variant}"
    return next((name for name in (written, _with_number_second(written)) if _is_counterpart(name, op)), None)


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """One call replaced by its twin. It writes to what is read later only one time in four, and then on purpose; where
    it would write to an input, to a copy."""
    nodes = flow.graph.nodes
    candidates = [
        (index, other) for index, node in enumerate(nodes) if (other := in_place_counterpart(node.op)) is not None
    ]
    deliberate = rng.random() < _DELIBERATE
    for index, other in in_random_order(rng, candidates):
        node = nodes[index]
        plain = (Rewrite(index, (DraftCall(other, node.args, node.kwargs),), (Ref(-1),)),)
        if facts(node.op).mutates:
            return plain
        if not _holds_its_result(flow, index):
            continue
        if _is_given(flow, node.args[0]):
            copy = DraftCall("aten.clone.default", (node.args[0],))
            return (Rewrite(index, (copy, DraftCall(other, (Ref(-1), *node.args[1:]), node.kwargs)), (Ref(-2),)),)
        if _may_write(flow, index, deliberate):
            return plain
    return None


def _holds_its_result(flow: DataFlow, index: int) -> bool:
    """Tells whether the first operand is a tensor of the result's dtype and shape."""
    node, result = flow.graph.nodes[index], flow.result(index)
    spec = flow.spec(node.args[0]) if node.args else None
    if result is None or spec is None or not flow.known(node):
        return False
    return spec.dtype == result.dtype and spec.shape == result.shape


def _is_given(flow: DataFlow, operand: Arg) -> bool:
    """Tells whether the operand may share an input's memory."""
    inputs = len(flow.graph.inputs)
    return isinstance(operand, Ref) and any(owner < inputs for owner in flow.owners[operand.index])


def _may_write(flow: DataFlow, index: int, deliberate: bool) -> bool:
    """Tells whether a write is safe: no elements share memory, and no old value is read later (unless `deliberate`)."""
    operand = flow.graph.nodes[index].args[0]
    spec = flow.spec(operand)
    if spec is None or not isinstance(operand, Ref) or spec.overlaps:
        return False
    return deliberate or (kind_of(spec.dtype) == "float" and not flow.read_after(index, operand.index))


def _with_number_second(name: str) -> str:
    """`pow_.Tensor_Scalar` is called `pow_.Scalar`."""
    return name.replace(".Tensor_Scalar", ".Scalar").replace(".Tensor_Tensor", ".Tensor")


def _is_counterpart(written: str, op: str) -> bool:
    try:
        known = facts(written)
    except UnknownOperator:
        return False
    return known.mutates == frozenset((0, known.arguments[0])) and _types(written) == _types(op)


def _types(op: str) -> list[str]:
    return [str(argument.type) for argument in schema_of(overload(op)).arguments]
