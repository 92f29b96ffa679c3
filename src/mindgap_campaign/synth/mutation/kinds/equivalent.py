"""Replaces a call by a small program that computes the same."""

from __future__ import annotations

import random

from mindgap_campaign.synth.mutation.dataflow import DataFlow, in_random_order
from mindgap_campaign.synth.mutation.edit import Edit
from mindgap_campaign.synth.mutation.rules import Rules


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Applies the first rule that matches a node; rules and nodes are in random order."""
    candidates = [index for index, node in enumerate(flow.graph.nodes) if node.op in rules.equivalent]
    for index in in_random_order(rng, candidates):
        for rule in in_random_order(rng, rules.equivalent[flow.graph.nodes[index].op]):
            edit = rule.rewrite(flow, index)
            if edit is not None:
                return (edit,)
    return None
