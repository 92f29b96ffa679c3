"""Defines a region: a small graph that ran, its origin, and the statistics of its border values."""

from __future__ import annotations

import json
from dataclasses import dataclass

from mindgap.graph import Graph, GraphError
from mindgap_campaign.synth.mutation.edit import Edit, from_json, to_json


@dataclass(frozen=True, slots=True)
class ValueStatistics:
    """Least, largest, mean and standard deviation of a tensor's finite elements."""

    low: float
    high: float
    mean: float
    std: float

    @property
    def varies(self) -> bool:
        """Tells whether the elements differ."""
        return self.high > self.low


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a region: with the graph whose digest is `base`, enough to rebuild it.

    `nodes`: the indices that were cut out, rising. `edits`: what was done to the cut, its borders' recipes first.
    `kinds`: the mutations that the edits stand for, one word each (`twin`, `cast`, …); none for a region as it was
    found. `drops`: positions of the edited cut's outputs that turned out to say nothing and were left out.
    """

    base: str
    nodes: tuple[int, ...]
    edits: tuple[Edit, ...] = ()
    kinds: tuple[str, ...] = ()
    drops: tuple[int, ...] = ()

    def to_json(self) -> str:
        """Writes one line; runs of nodes are pairs of first and last."""
        runs: list[list[int]] = []
        for node in self.nodes:
            if runs and runs[-1][1] == node - 1:
                runs[-1][1] = node
            else:
                runs.append([node, node])
        parts = [self.base, runs, [to_json(edit) for edit in self.edits], list(self.kinds)]
        parts += [list(self.drops)] if self.drops else []
        return json.dumps(parts, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Origin:
        """Reads the text of `to_json`. Raises `GraphError` for anything else."""
        try:
            base, runs, edits, kinds, *drops = json.loads(text)
            nodes = tuple(node for first, last in runs for node in range(first, last + 1))
            return Origin(base, nodes, tuple(from_json(edit) for edit in edits), tuple(kinds), *map(tuple, drops))
        except (ValueError, TypeError) as error:
            raise GraphError(f"this is no origin of a region: {text[:120]} ({error})") from None


@dataclass(frozen=True)
class Region:
    """A graph of at most 50 nodes that ran, with the specs that its values really had.

    `free`: the float inputs that accept any values within their span, because the graph requires only a range (no
    indices, no shapes that depend on values). `input_spans`: the span of each free input when the region ran.
    `output_spans`: the span of each output; None if it is not float, not finite, or one value everywhere. `features`:
    the features that it covers (`mindgap.graph.features`).
    """

    graph: Graph
    origin: Origin
    free: tuple[int, ...]
    input_spans: tuple[ValueStatistics, ...]
    output_spans: tuple[ValueStatistics | None, ...]
    features: tuple[str, ...] = ()
