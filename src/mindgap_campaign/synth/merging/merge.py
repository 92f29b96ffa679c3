"""Merges regions into variants of any size by graph algebra alone: selects, wires and encodes them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from random import Random
from typing import Any, Final

import numpy as np

from mindgap.aten.internal import internal_values
from mindgap.graph import Graph, GraphError
from mindgap_campaign.synth.merging.assembly import Assembly
from mindgap_campaign.synth.merging.fragment import Fragment, Parts, Piece, Source
from mindgap_campaign.synth.merging.glue import (
    Filling,
    RowConversion,
    StandardRow,
    between,
    can_be_fed,
    can_feed,
    entering,
    leaving,
)
from mindgap_campaign.synth.merging.variant import Variant, VariantPart, Wire
from mindgap_campaign.synth.regions.pool import RegionPool

#: Of each feature of a pool, by code: whether it has not been covered yet.
Uncovered = np.ndarray[Any, np.dtype[np.bool_]]

#: Elements. Larger values take most of the time of whoever runs and judges variants.
SMALL: Final = 1 << 15

#: How many regions are drawn for each that is taken: the one that covers most that is new.
_CANDIDATES: Final = 3
#: Outputs among which a source is drawn, the latest ones: far ones are looked at in every eighth draw.
_RECENT: Final = 12
_FILLINGS: Final[tuple[Filling, ...]] = ("repeat", "repeat", "repeat", "pad")
#: The parts of long rows that are used.
_PARTS: Final = 4
#: By part and filling: made once, as wires are by the hundred.
_CONVERSIONS: Final = tuple(tuple(RowConversion(part, filling) for filling in _FILLINGS) for part in range(_PARTS))
#: The probability of each wire of a region but its first.
_MORE_WIRES: Final = 0.25


@dataclass(frozen=True, slots=True)
class RegionPort:
    """A region's input or output that a wire can connect.

    `glue`: the glue on its side. `code`: the standard row on the other side of that glue. `position`: the number of the
    input, or the position of the output. `value`: its value number in the region.
    """

    position: int
    value: int
    glue: Fragment | None
    code: int


@dataclass(frozen=True, slots=True)
class RegionPorts:
    """A region prepared for merging. `input_ports`: inputs by number. `output_ports`: outputs by position.

    `outputs`: the values that a variant returns, each once. Internal results are left out, such as saved statistics:
    no public function returns them, and some exporters cannot. A region with no other outputs returns them.
    """

    fragment: Fragment
    input_ports: Mapping[int, RegionPort]
    output_ports: Mapping[int, RegionPort]
    outputs: tuple[int, ...]


class Merger:
    """Merges regions of a pool into variants. Prepares each region at its first use. Not thread-safe."""

    def __init__(self, pool: RegionPool) -> None:
        if not len(pool):
            raise GraphError("the pool has no regions: there is nothing to merge")
        self.pool = pool
        self._sized = {
            chosen: _sorted_by_size(_chosen(pool, *chosen), pool.nodes) for chosen in product((False, True), repeat=3)
        }
        self._ports: list[RegionPorts | None] = [None] * len(pool)
        self._rows: dict[int, Fragment | None] = {}
        self._parts = Parts()
        #: CPU seconds that went into what is done once for each region and each way between two rows.
        self.preparing_s = 0.0

    def uncovered(self) -> Uncovered:
        """Returns the mask of uncovered features before the first variant: all."""
        return np.ones(len(self.pool.feature_names), np.bool_)

    def draw(
        self, rng: Random, nodes: int, uncovered: Uncovered, mutated: float, large: float, forward: bool = False
    ) -> Variant:
        """Draws a variant of at most `nodes` nodes, glue included, unless its only region has more.

        `uncovered`: features not covered yet. Regions with such features are preferred; the features of the variant are
        cleared. `mutated`: the probability that a region is a mutated one. `large`: the probability that it may have
        values of more than `SMALL` elements. `forward`: no region has an operator that only a backward pass calls.
        """
        parts: list[VariantPart] = []
        ends: list[tuple[int, int]] = []
        left = nodes
        while left > 0 or not parts:
            number = self._pick(rng, left, uncovered, mutated, large, forward)
            if number is None:
                break
            ports = self.ports_of(number)
            wires, left = self._wires(rng, parts, ends, ports, left - ports.fragment.nodes)
            ends += [(len(parts), position) for position in ports.output_ports]
            parts.append(VariantPart(number, wires))
            uncovered[self.pool.feature_codes(number)] = False
        return Variant(self.pool.digest, tuple(parts))

    def assembly(self, variant: Variant) -> Assembly:
        """Assembles the variant's graph from its regions and glue. Raises `GraphError` if it is of another pool."""
        if variant.pool != self.pool.digest:
            raise GraphError(f"the variant is made of pool {variant.pool[:12]}…, this is {self.pool.digest[:12]}…")
        pieces: list[Piece] = []
        places: list[int] = []
        left: dict[tuple[int, int], Source] = {}
        used: set[tuple[int, int]] = set()
        for part in variant.parts:
            feeds: dict[int, Source] = {}
            ports = self.ports_of(part.region)
            for wire in part.wires:
                out, into = self._ends(variant.parts, ports, wire)
                source = left.get((wire.part, wire.output))
                if source is None:
                    source = _through(pieces, out.glue, (places[wire.part], out.value))
                    left[wire.part, wire.output] = source
                    used.add((wire.part, out.value))
                source = _through(pieces, self._row(out, into, wire.conversion), source)
                feeds[wire.input] = _through(pieces, into.glue, source)
            places.append(len(pieces))
            pieces.append(Piece(ports.fragment, feeds))
        outputs = [
            (places[number], value)
            for number, part in enumerate(variant.parts)
            for value in self.ports_of(part.region).outputs
            if (number, value) not in used
        ]
        return Assembly(tuple(pieces), tuple(outputs))

    def features(self, variant: Variant) -> frozenset[str]:
        """Returns the features that the variant's regions cover."""
        codes: set[int] = {
            code for part in variant.parts for code in self.pool.feature_codes(self._checked(part.region)).tolist()
        }
        return frozenset(self.pool.feature_names[code] for code in codes)

    def ports_of(self, number: int) -> RegionPorts:
        """Returns a region prepared for merging. Raises `GraphError` if the pool has no such region."""
        ports = self._ports[self._checked(number)]
        if ports is None:
            started = time.process_time()
            ports = self._ports[number] = self._prepared(number)
            self.preparing_s += time.process_time() - started
        return ports

    def _checked(self, number: int) -> int:
        if not 0 <= number < len(self._ports):
            raise GraphError(f"the variant has region {number}, the pool has {len(self._ports)}")
        return number

    def _prepared(self, number: int) -> RegionPorts:
        region = self.pool[number]
        graph = region.graph
        outputs = returned(graph)
        feeds = {
            at: self._end(at, at, *entering(graph.inputs[at].spec, span))
            for at, span in zip(region.free, region.input_spans, strict=True)
            if can_be_fed(graph.inputs[at].spec, span)
        }
        gives: dict[int, RegionPort] = {}
        for place, (value, span) in enumerate(zip(graph.outputs, region.output_spans, strict=True)):
            spec = graph.values[value]
            if value in outputs and spec is not None and span is not None and can_feed(spec, span):
                gives[place] = self._end(place, value, *leaving(spec, span))
        return RegionPorts(Fragment(graph, self._parts), feeds, gives, outputs)

    def _end(self, position: int, value: int, glue: Graph, row: StandardRow) -> RegionPort:
        return RegionPort(position, value, self._glue(glue), row.code)

    def _glue(self, graph: Graph) -> Fragment | None:
        """Encodes glue as a fragment that returns its last value; None for glue without nodes."""
        return Fragment(graph, self._parts) if graph.nodes else None

    def _pick(
        self, rng: Random, left: int, uncovered: Uncovered, mutated: float, large: float, forward: bool
    ) -> int | None:
        """Picks a region of at most `left` nodes; for the first region of a variant, else the smallest one."""
        sized = self._sized[rng.random() < mutated, rng.random() < large, forward]
        fitting = sized.upto(left)
        if not fitting:
            return None
        best, most = None, -1
        for _ in range(_CANDIDATES):
            number = sized.numbers[int(rng.random() * fitting)]
            novelty = np.count_nonzero(uncovered[self.pool.feature_codes(number)])
            if novelty > most:
                best, most = number, novelty
        return best

    def _wires(
        self, rng: Random, parts: Sequence[VariantPart], ends: Sequence[tuple[int, int]], ports: RegionPorts, left: int
    ) -> tuple[tuple[Wire, ...], int]:
        """Draws wires for a region: at least one if possible, others at random. Returns them and the nodes left."""
        if not ends or not ports.input_ports:
            return (), left
        wires: list[Wire] = []
        numbers = list(ports.input_ports)
        first = int(rng.random() * len(numbers))
        for offset in range(len(numbers)):
            if offset and rng.random() >= _MORE_WIRES:
                continue
            near = max(0, len(ends) - _RECENT) if rng.random() < 0.875 else 0
            part, position = ends[near + int(rng.random() * (len(ends) - near))]
            conversion = _CONVERSIONS[int(rng.random() * _PARTS)][int(rng.random() * len(_FILLINGS))]
            wire = Wire(numbers[(first + offset) % len(numbers)], part, position, conversion)
            nodes = self._nodes(parts, ports, wire)
            if nodes <= left:
                left -= nodes
                wires.append(wire)
        return tuple(wires), left

    def _nodes(self, parts: Sequence[VariantPart], ports: RegionPorts, wire: Wire) -> int:
        """Returns the most nodes of glue that a wire adds; outputs used twice share their first part."""
        out, into = self._ends(parts, ports, wire)
        row = self._row(out, into, wire.conversion)
        return sum([glue.nodes for glue in (out.glue, into.glue, row) if glue is not None])

    def _ends(self, parts: Sequence[VariantPart], ports: RegionPorts, wire: Wire) -> tuple[RegionPort, RegionPort]:
        try:
            return self.ports_of(parts[wire.part].region).output_ports[wire.output], ports.input_ports[wire.input]
        except LookupError:
            raise GraphError(f"the variant has a wire that its regions do not: {wire}") from None

    def _row(self, out: RegionPort, into: RegionPort, conversion: RowConversion) -> Fragment | None:
        key = (out.code << 40) + (into.code << 20) + conversion.code
        if key not in self._rows:
            started = time.process_time()
            self._rows[key] = self._glue(between(StandardRow.of(out.code), StandardRow.of(into.code), conversion))
            self.preparing_s += time.process_time() - started
        return self._rows[key]


def returned(graph: Graph) -> tuple[int, ...]:
    """Returns a region's outputs without internal outputs; all of them if there are no others."""
    outputs = tuple(dict.fromkeys(graph.outputs))
    internal = internal_values(graph).values
    return tuple(value for value in outputs if value not in internal) or outputs


def _through(pieces: list[Piece], glue: Fragment | None, source: Source) -> Source:
    """Appends glue to the pieces. Returns the source that holds its result."""
    if glue is None:
        return source
    pieces.append(Piece(glue, {0: source}))
    return len(pieces) - 1, len(glue.values) - 1


@dataclass(frozen=True, slots=True)
class _Sized:
    """Regions sorted by number of nodes, so that those of at most n nodes are a prefix."""

    numbers: tuple[int, ...]
    prefix: tuple[int, ...]

    def upto(self, nodes: int) -> int:
        """Returns how many regions have at most `nodes` nodes."""
        return self.prefix[min(max(nodes, 0), len(self.prefix) - 1)]


def _chosen(pool: RegionPool, mutated: bool, large: bool, forward: bool) -> list[int]:
    """Returns the (un)mutated regions, including large ones if `large`, and those with gradient operators unless
    `forward`; other regions if there are none."""
    numbers = [number for number in range(len(pool)) if not (forward and pool.gradients[number])] or [*range(len(pool))]
    numbers = [number for number in numbers if pool.mutated[number] == mutated] or numbers
    return [number for number in numbers if large or pool.largest[number] <= SMALL] or numbers


def _sorted_by_size(numbers: Iterable[int], nodes: Sequence[int]) -> _Sized:
    ordered = sorted(numbers, key=lambda number: (nodes[number], number))
    counts = [0] * (nodes[ordered[-1]] + 1)
    for number in ordered:
        counts[nodes[number]] += 1
    return _Sized(tuple(ordered), tuple(accumulate(counts)))
