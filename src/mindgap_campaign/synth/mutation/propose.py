"""Proposes mutations of a small graph: a kind, a place, and the edits.

A proposal follows the rules and is not proven: the edited graph has to run once. Edits use the vocabulary of
`mindgap_campaign.synth.mutation.edit`, so that a graph can be rebuilt after the rules have changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mindgap.graph import Graph, MindgapError
from mindgap_campaign.synth.mutation.dataflow import DataFlow
from mindgap_campaign.synth.mutation.edit import Edit
from mindgap_campaign.synth.mutation.kinds import (
    alike,
    attribute,
    cast,
    equivalent,
    in_place,
    layout,
    shape,
    structure,
    value,
)
from mindgap_campaign.synth.mutation.rules import Rules


@dataclass(frozen=True, slots=True)
class Proposal:
    """Edits of one kind, to be applied to the graph that they were proposed for."""

    kind: str
    edits: tuple[Edit, ...]


_Propose = Callable[[DataFlow, random.Random, Rules], "tuple[Edit, ...] | None"]

#: Each kind with how often it is chosen.
_KINDS: Final[dict[str, tuple[_Propose, int]]] = {
    "twin": (in_place.propose, 3),
    "alike": (alike.propose, 6),
    "equivalent": (equivalent.propose, 6),
    "attribute": (attribute.propose, 5),
    "cast": (cast.propose, 3),
    "layout": (layout.propose, 4),
    "structure": (structure.propose, 4),
    "shape": (shape.propose, 3),
    "value": (value.propose, 1),
}
#: The kinds of mutation, in the order of the documentation.
KINDS: Final = tuple(_KINDS)


def propose(graph: Graph, rng: random.Random, rules: Rules, kind: str | None = None) -> Proposal | None:
    """Proposes a mutation of the graph; None if no node or input allows one (of that kind).

    Places whose operands' specs are not known, as after an earlier edit, are left alone. Raises `MindgapError` for a
    kind that is not in `KINDS`.
    """
    flow = DataFlow(graph)
    if kind is not None:
        if kind not in _KINDS:
            raise MindgapError(f"there is no kind of mutation {kind!r} ({', '.join(KINDS)})")
        edits = _KINDS[kind][0](flow, rng, rules)
        return Proposal(kind, edits) if edits else None
    left = dict(_KINDS) if graph.nodes else {}
    while left:
        chosen = rng.choices(list(left), [weight for _, weight in left.values()])[0]
        edits = left.pop(chosen)[0](flow, rng, rules)
        if edits:
            return Proposal(chosen, edits)
    return None
