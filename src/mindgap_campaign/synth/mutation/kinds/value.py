"""Puts NaN, infinities, signed zeros, subnormals and extremes among the values of an input. On request only."""

from __future__ import annotations

import random

from mindgap.graph import Exceptional
from mindgap_campaign.synth.mutation.dataflow import DataFlow
from mindgap_campaign.synth.mutation.edit import Edit, InputEdit
from mindgap_campaign.synth.mutation.rules import Rules

#: Shares of the elements that are exceptional: a few, some, all.
_SHARES = (0.02, 0.1, 0.25, 1.0)


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Gives one floating-point input another recipe."""
    inputs = flow.graph.inputs
    candidates = [
        number
        for number, given in enumerate(inputs)
        if given.spec.kind == "float" and given.spec.numel > 0 and not isinstance(given.recipe, Exceptional)
    ]
    if not candidates:
        return None
    number = rng.choice(candidates)
    return (InputEdit(number, inputs[number].spec, Exceptional(rng.getrandbits(48), rng.choice(_SHARES))),)
