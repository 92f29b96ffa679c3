"""Samples regions from one graph: cut as they are, and mutated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from mindgap.graph import Graph, GraphError, Node, TensorStore
from mindgap.graph.features import features_of
from mindgap_campaign.synth.mutation.edit import Edit, apply
from mindgap_campaign.synth.mutation.propose import KINDS, Proposal, propose
from mindgap_campaign.synth.mutation.rules import load
from mindgap_campaign.synth.regions.cut import MOST_NODES, RegionCut, cut, whole_graph_cut
from mindgap_campaign.synth.regions.prepared import PreparedGraph, prepare_graph
from mindgap_campaign.synth.regions.region import Region
from mindgap_campaign.synth.regions.trial import region_of
from mindgap_campaign.synth.values.recipes import recipes

#: Mutations of one region: mostly one, so that what a finding is due to is plain.
_DEPTHS: Final = (1, 1, 1, 2, 2, 3)
#: Further mutations of a base that is one operator.
_OF_ONE_OPERATOR: Final = ("twin", "cast", "cast", "cast", "shape", "shape", "layout")
#: Draws of a cut before a base is given up.
_DRAWS: Final = 8
#: Kinds of mutation that ask for undefined behaviour: on request only.
ON_REQUEST: Final = frozenset({"value"})


@dataclass(frozen=True, slots=True)
class SamplerOptions:
    """How many regions to sample from each base: `plain` ones, and `mutated` ones of each. `nodes`: the largest size.

    `exceptional`: also regions that are fed NaN, infinities and extremes on purpose.
    """

    plain: int = 3
    mutated: int = 2
    nodes: int = MOST_NODES
    exceptional: bool = False


@dataclass(frozen=True, slots=True)
class SamplingAttempt:
    """One attempt: `kind` is `found`, or the mutations joined by +. It has a region, or the reason for none."""

    kind: str
    region: Region | None
    reason: str = ""


def sample_regions(
    base: str, graph: Graph, rng: Random, wanted: SamplerOptions, *, tensors: TensorStore | None = None
) -> Iterator[SamplingAttempt]:
    """Yields all attempts on a base, whose digest is `base`; the same for the same `rng`.

    A graph that is small enough is taken whole, once, and then cut no further.
    """
    prepared = prepare_graph(graph)
    whole = whole_graph_cut(prepared, wanted.nodes)
    for _ in range(1 if whole else wanted.plain):
        piece = whole or _drawn(prepared, rng, wanted.nodes)
        if piece is None:
            yield SamplingAttempt("found", None, "cut: nothing fits")
            continue
        edits, _ = recipes(piece.graph, rng, tensors=tensors)
        plain = _tried(base, piece, edits, (), tensors)
        yield plain
        single = piece.graph.nodes[0] if len(piece.graph.nodes) == 1 else None
        if plain.region is None:
            if plain.reason == "useless" and single is not None and _is_predicate(single):
                # `isinf` of ordinary numbers is one value everywhere.
                given, _ = recipes(piece.graph, rng, exceptional=True, tensors=tensors)
                yield _tried(base, piece, given, ("value",), tensors)
            continue
        allowed = [kind for kind in KINDS if wanted.exceptional or kind not in ON_REQUEST]
        for _ in range(wanted.mutated):
            yield from _mutated(base, piece, edits, rng, allowed, tensors)
        if single is not None and wanted.mutated:
            # Operators that models call in one form, dtype, size and layout come in others.
            for kind in _OF_ONE_OPERATOR:
                yield from _mutated(base, piece, edits, rng, [kind], tensors)
        if wanted.exceptional and wanted.mutated:
            yield from _mutated(base, piece, edits, rng, ["value"], tensors)


def _drawn(prepared: PreparedGraph, rng: Random, nodes: int) -> RegionCut | None:
    for _ in range(_DRAWS):
        piece = cut(prepared, rng, nodes)
        if piece is not None:
            return piece
    return None


def _mutated(
    base: str, piece: RegionCut, edits: Sequence[Edit], rng: Random, allowed: Sequence[str], tensors: TensorStore | None
) -> Iterator[SamplingAttempt]:
    """Yields one mutated region, if the allowed kinds propose a mutation."""
    kinds: list[str] = []
    chosen = list(edits)
    draft = apply(piece.graph, chosen)
    for _ in range(_DEPTHS[int(rng.random() * len(_DEPTHS))]):
        proposal = _proposal(draft, rng, allowed)
        if proposal is None:
            break
        try:
            draft = apply(draft, proposal.edits)
        except GraphError:
            continue
        kinds.append(proposal.kind)
        chosen += proposal.edits
    if kinds:
        yield _tried(base, piece, chosen, kinds, tensors)


def _is_predicate(node: Node) -> bool:
    return all(spec is not None and spec.dtype == "bool" for spec in node.outputs)


def _proposal(draft: Graph, rng: Random, allowed: Sequence[str]) -> Proposal | None:
    """Proposes a mutation of a random kind; of another kind if that one proposes none."""
    left = list(allowed)
    while left:
        proposal = propose(draft, rng, load(), left.pop(int(rng.random() * len(left))))
        if proposal is not None:
            return proposal
    return None


def _tried(
    base: str, piece: RegionCut, edits: Sequence[Edit], kinds: Sequence[str], tensors: TensorStore | None
) -> SamplingAttempt:
    kind = "+".join(kinds) or "found"
    region = region_of(base, piece, edits, kinds, tensors=tensors)
    if isinstance(region, str):
        return SamplingAttempt(kind, None, region)
    return SamplingAttempt(kind, replace(region, features=features_of(region.graph, tuple(kinds))))
