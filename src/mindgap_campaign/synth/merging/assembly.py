"""Joins small graphs into one large graph by splicing their bytes, hundreds of times a second."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from mindgap.graph.codec import framed
from mindgap.graph.decoder import graph_from_content
from mindgap.graph.errors import GraphError
from mindgap.graph.graph import Graph
from mindgap_campaign.synth.merging.fragment import Piece, Source
from mindgap_campaign.synth.merging.splice import Wiring, spliced_content


@dataclass(frozen=True)
class Assembly:
    """A graph joined from pieces: their inputs that are not fed, in order, and all their nodes, in order.

    `outputs`: what it returns, each as (index of a piece, number of a value in that piece's own graph). It has neither
    labels nor `grad`. Every method raises `GraphError` if a feed or an output names a value that does not exist, or if
    a tensor would be fed to an input of another dtype, shape or stride.
    """

    pieces: tuple[Piece, ...]
    outputs: tuple[Source, ...]

    def graph(self) -> Graph:
        """Decodes the joined graph."""
        return graph_from_content(self._content)

    def content(self) -> bytes:
        """Returns `graph_content` of the graph; cached."""
        return self._content

    def digest(self) -> str:
        """Returns `mindgap.graph.digest` of the graph."""
        return hashlib.sha256(self._content).hexdigest()

    def encode(self) -> bytes:
        """Returns `mindgap.graph.encode` of the graph."""
        return framed(self._content)

    @cached_property
    def _content(self) -> bytes:
        fragments = [piece.fragment for piece in self.pieces]
        for index, fragment in enumerate(fragments):
            if fragment.parts is not fragments[0].parts:
                raise GraphError(
                    f"cannot assemble: the fragments of pieces 0 and {index} were not made with one `Parts`"
                )
        return spliced_content(fragments, self._wiring)

    @cached_property
    def _wiring(self) -> Wiring:
        """Checks feeds and outputs and returns them as flat numbers."""
        sizes = [piece.fragment.sizes for piece in self.pieces]
        first_input = list(accumulate([size[0] for size in sizes], initial=0))
        first_slot = list(accumulate([size[1] for size in sizes], initial=0))
        values = [piece.fragment.values for piece in self.pieces]
        known: dict[int, int] = {}

        def source(piece: int, value: int) -> int:
            inputs = sizes[piece][0]
            if value >= inputs:
                return inputs - 1 - first_slot[piece] - value
            flat = first_input[piece] + value
            return known.get(flat, flat)

        for index, piece in enumerate(self.pieces):
            if not piece.feeds:
                continue
            own, start, inputs = values[index], first_input[index], sizes[index][0]
            for number, (feeder, value) in piece.feeds.items():
                if not (
                    0 <= number < inputs
                    and 0 <= feeder < index
                    and 0 <= value < len(given := values[feeder])
                    and (own[number] is given[value] or own[number] == given[value])
                ):
                    raise _misfit(self.pieces, index, number, feeder, value)
                known[start + number] = source(feeder, value)
        for position, (index, value) in enumerate(self.outputs):
            if not (0 <= index < len(values) and 0 <= value < len(values[index]) and values[index][value] is not None):
                raise _no_output(self.pieces, position, index, value)
        return Wiring(list(known), list(known.values()), [source(*output) for output in self.outputs])


def _misfit(pieces: Sequence[Piece], index: int, number: int, source: int, value: int) -> GraphError:
    """Returns the error for a value that cannot be fed to an input of piece `index`."""
    inputs, *_ = pieces[index].fragment.sizes
    if not 0 <= number < inputs:
        return GraphError(f"cannot assemble: piece {index} has no input {number} to feed, it has {inputs}")
    if not 0 <= source < index:
        return GraphError(
            f"cannot assemble: piece {index} is fed from piece {source}, which is none of the {index} before it"
        )
    values = pieces[source].fragment.values
    if not 0 <= value < len(values):
        return GraphError(
            f"cannot assemble: piece {source} has no value {value} to feed piece {index}, it has {len(values)}"
        )
    wanted, given = pieces[index].fragment.values[number], values[value]
    assert wanted is not None  # of an input
    if given is None:
        return GraphError(f"cannot assemble: piece {index} is fed value {value} of piece {source}, an empty slot")
    return GraphError(
        f"cannot assemble: input {number} of piece {index} is {wanted} with stride {wanted.stride}, but value {value}"
        f" of piece {source} is {given} with stride {given.stride}"
    )


def _no_output(pieces: Sequence[Piece], position: int, index: int, value: int) -> GraphError:
    """Returns the error for a value of piece `index` that cannot be an output."""
    where = f"cannot assemble: output {position} is"
    if not 0 <= index < len(pieces):
        return GraphError(f"{where} of piece {index}, but there are {len(pieces)} pieces, counted from 0")
    count = len(pieces[index].fragment.values)
    if not 0 <= value < count:
        return GraphError(f"{where} value {value} of piece {index}, which has {count}")
    return GraphError(f"{where} value {value} of piece {index}, an empty slot")
