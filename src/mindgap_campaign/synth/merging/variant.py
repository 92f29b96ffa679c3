"""Describes a variant in a few hundred bytes: the regions of a pool, and the wires between them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from mindgap.graph import GraphError
from mindgap_campaign.synth.merging.glue import RowConversion

VERSION = 1


@dataclass(frozen=True, slots=True)
class Wire:
    """Connects an output of an earlier part to an input of a part, through glue.

    `conversion`: the random choices of glue.
    """

    input: int
    part: int
    output: int
    conversion: RowConversion


@dataclass(frozen=True, slots=True)
class VariantPart:
    """A region, by its number in the pool, and the wires to its inputs."""

    region: int
    wires: tuple[Wire, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant: parts in the order in which they run. `pool`: the digest of the pool of their regions."""

    pool: str
    parts: tuple[VariantPart, ...]

    def to_json(self) -> str:
        """Writes one line of ASCII, short enough to keep for every variant; see `_part`."""
        parts = [
            [part.region, *(n for w in part.wires for n in (w.input, position - w.part, w.output, w.conversion.code))]
            for position, part in enumerate(self.parts)
        ]
        return json.dumps({"v": VERSION, "pool": self.pool, "parts": parts}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Variant:
        """Reads the text of `to_json`. Raises `GraphError` for anything else, and for another version."""
        try:
            data = json.loads(text)
            if data["v"] != VERSION:
                raise GraphError(f"this variant is described in version {data['v']}, known here is {VERSION}")
            parts = tuple(_part(position, *numbers) for position, numbers in enumerate(data["parts"]))
            return Variant(data["pool"], parts)
        except (ValueError, TypeError, KeyError) as error:
            raise GraphError(f"this describes no variant: {text[:120]} ({error})") from None


def _part(position: int, region: int, *wires: int) -> VariantPart:
    """A region's number, and for each wire: input, how many parts back, output, way."""
    fours = zip(wires[::4], wires[1::4], wires[2::4], wires[3::4], strict=True)
    return VariantPart(
        region,
        tuple(Wire(number, position - back, output, RowConversion.of(code)) for number, back, output, code in fours),
    )
