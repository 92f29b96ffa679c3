"""Replaces an operator by another one of its group."""

from __future__ import annotations

import random

from mindgap.graph import Ref
from mindgap_campaign.synth.mutation.dataflow import DataFlow, in_random_order
from mindgap_campaign.synth.mutation.edit import Edit, Rewrite
from mindgap_campaign.synth.mutation.rules import OperatorGroup, Rules
from mindgap_campaign.synth.mutation.rules.alike import exchange


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Replaces one node's operator. Arguments are matched by name."""
    candidates = [index for index, node in enumerate(flow.graph.nodes) if node.op in rules.alike]
    for index in in_random_order(rng, candidates):
        node = flow.graph.nodes[index]
        groups = [group for group in rules.alike[node.op] if _suits(flow, index, group)]
        others = [member for group in groups for member in group.members if member.op != node.op]
        for member in in_random_order(rng, others, 3):
            step = exchange(node, member)
            if step is not None:
                results = tuple(Ref(-1 - slot) for slot in range(len(node.outputs)))
                return (Rewrite(index, (step,), results),)
    return None


def _suits(flow: DataFlow, index: int, group: OperatorGroup) -> bool:
    """Tells whether the group accepts the dtype of the first tensor."""
    node = flow.graph.nodes[index]
    if not flow.known(node):
        return False
    arg = next((a for a in node.args if isinstance(a, (Ref, tuple))), None)
    spec = flow.spec(arg[0] if isinstance(arg, tuple) and arg else arg)
    return spec is not None and spec.kind in group.kinds
