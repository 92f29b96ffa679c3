"""A call written as the small program that computes the same."""

from __future__ import annotations

import random

from mindgap.synth.mutation.edit import Edit
from mindgap.synth.mutation.rules import Rules
from mindgap.synth.mutation.wiring import Wiring, picks


def propose(wiring: Wiring, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """The first rule, in random order, that holds for a node, in random order."""
    found = [index for index, node in enumerate(wiring.graph.nodes) if node.op in rules.equivalent]
    for index in picks(rng, found):
        for rule in picks(rng, rules.equivalent[wiring.graph.nodes[index].op]):
            edit = rule.rewrite(wiring, index)
            if edit is not None:
                return (edit,)
    return None
