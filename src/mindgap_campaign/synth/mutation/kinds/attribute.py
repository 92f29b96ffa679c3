"""Changes the value of an argument that is not a tensor."""

from __future__ import annotations

import math
import random
from typing import Any

from mindgap.graph import Arg, GraphError, Ref, TensorSpec
from mindgap_campaign.synth.mutation.dataflow import DataFlow, in_random_order
from mindgap_campaign.synth.mutation.edit import DraftCall, Edit, Rewrite
from mindgap_campaign.synth.mutation.rules import AttributeRule, Rules
from mindgap_campaign.synth.mutation.rules.program import program
from mindgap_campaign.synth.mutation.schemas import arguments, bind, call
from mindgap_campaign.synth.mutation.spec_inference import infer_specs


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Changes one argument of one node. Readers that need the old shape get the result cut or padded."""
    nodes = flow.graph.nodes
    candidates = [(index, rule) for index, node in enumerate(nodes) for rule in rules.attributes.get(node.op, ())]
    for index, rule in in_random_order(rng, candidates, 6):
        steps = _changed(flow, index, rule, rng)
        if steps is None:
            continue
        if not rule.shape:
            return (_rewrite_of(flow, index, steps, len(steps) - 1),)
        edit = _fitted(flow, index, steps, rng, rules)
        if edit is not None:
            return (edit,)
    return None


def _changed(flow: DataFlow, index: int, rule: AttributeRule, rng: random.Random) -> tuple[DraftCall, ...] | None:
    """Returns the steps with another value of the argument; None if the rule has none for it."""
    node = flow.graph.nodes[index]
    if not flow.known(node):
        return None
    explicit = bind(node)
    names: dict[str, Any] = arguments(node)

    try:
        old = names[rule.argument]
        new = rule.value(names, flow.require_spec, rng)
        if new == old and isinstance(new, bool) == isinstance(old, bool):
            return None
        names[rule.argument] = names["new"] = new
        if not all(condition(names, flow.require_spec) for condition in rule.when):
            return None
        explicit[rule.argument] = new
        steps, names = program(rule.before, names, flow.require_spec)
        explicit |= {operand: names[name] for operand, name in rule.operands.items() if names[operand] is not None}
        return (*steps, call(node.op, explicit, len(node.outputs)))
    except (LookupError, TypeError, ValueError, ArithmeticError, GraphError):
        return None


def _fitted(
    flow: DataFlow, index: int, steps: tuple[DraftCall, ...], rng: random.Random, rules: Rules
) -> Rewrite | None:
    """Returns the rewrite, with the old shape restored for readers that need it; None if PyTorch refuses the call."""
    made = infer_specs(steps, flow.spec)
    if made is None:
        return None
    outputs, first = flow.graph.nodes[index].outputs, flow.graph.first_value[index]
    before = sum(step.slots for step in steps[:-1])
    rewritten, results = list(steps), list[Ref | None]()
    slots = len(made)
    for slot, wanted in enumerate(outputs):
        got = made[before + slot]
        if wanted is None or got is None:
            results.append(Ref(-1 - before - slot))
            continue
        if got.dtype != wanted.dtype or 0 in got.shape:
            return None
        if got.shape == wanted.shape or (shape_does_not_matter(flow, first + slot, rules) and rng.random() < 0.7):
            results.append(Ref(-1 - before - slot))
            continue
        fit = fit_steps(Ref(-1 - before - slot), got, wanted, slots)
        rewritten += fit
        slots += len(fit)
        results.append(Ref(-slots))
    return Rewrite(index, tuple(rewritten), tuple(results))


def _rewrite_of(flow: DataFlow, index: int, steps: tuple[DraftCall, ...], before: int) -> Rewrite:
    outputs = flow.graph.nodes[index].outputs
    results = tuple(Ref(-1 - before - slot) for slot in range(len(outputs)))
    return Rewrite(index, steps, results)


def shape_does_not_matter(flow: DataFlow, value: int, rules: Rules, depth: int = 6) -> bool:
    """Tells whether all readers of the value, and their readers, accept any shape."""
    readers = flow.readers[value]
    if not readers:
        return True
    if depth == 0:
        return False
    for reader in readers:
        node = flow.graph.nodes[reader]
        if node.op not in rules.shape_free or len(node.outputs) != 1:
            return False
        if not shape_does_not_matter(flow, flow.graph.first_value[reader], rules, depth - 1):
            return False
    return True


def fit_steps(value: Ref, got: TensorSpec, wanted: TensorSpec, slots: int) -> list[DraftCall]:
    """Returns calls that cut or zero-pad a tensor to another shape at the end of each dimension.

    A tensor with another number of dimensions is flattened first. The last call makes the result. `slots`: the number
    of slots of earlier steps.
    """
    if len(got.shape) == len(wanted.shape):
        return [DraftCall("aten.constant_pad_nd.default", (value, _padding(got.shape, wanted.shape)))]
    have, want = math.prod(got.shape), math.prod(wanted.shape)
    flat = DraftCall("aten.reshape.default", (value, (have,)))
    shaped: tuple[Arg, ...] = wanted.shape
    if have == want:
        return [DraftCall("aten.reshape.default", (value, shaped))]
    padded = DraftCall("aten.constant_pad_nd.default", (Ref(-1 - slots), (0, want - have)))
    return [flat, padded, DraftCall("aten.view.default", (Ref(-2 - slots), shaped))]


def _padding(got: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the padding argument of `constant_pad_nd`: pairs, last dimension first."""
    pads: list[int] = []
    for have, want in zip(reversed(got), reversed(wanted), strict=True):
        pads += [0, want - have]
    return tuple(pads)
