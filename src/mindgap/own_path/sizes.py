"""Dynamic dimensions as a user writes them, and what a run at other sizes gave. Imports no framework."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mindgap.graph import MindgapError

#: What is further off than this, of the largest magnitude, is looked at.
FAR: Final = 1e-3
_RANGE: Final = re.compile(r"(?P<name>[\w.]+)=(?P<low>\d+)\.\.(?P<high>\d+)")


@dataclass(frozen=True, slots=True)
class DynamicSize:
    """A dimension that may have any size from `low` to `high`.

    name: `batch` (dimension 0 of every tensor among the arguments), `seq` (dimension 1 of each that has one), or
        `ARGUMENT.DIMENSION`.
    """

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class SizeRun:
    """One run at other sizes. `words`: `batch=7`. `apart`: how far from eager mode, None where it failed: `message`.
    `moves`: how far eager mode moves by rounding, as of `rounding_moves`; 0 where `apart` is small."""

    words: str
    apart: float | None
    message: str = ""
    line: str = ""
    moves: float = 0.0


def size_words(sizes: Mapping[str, int]) -> str:
    """Formats sizes: `batch=7, seq=3`."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def sizes_of(words: str) -> dict[str, int]:
    """The inverse of `size_words`."""
    return {name: int(size) for name, _, size in (each.rpartition("=") for each in words.split(", "))}


def parse_sizes(text: str) -> tuple[DynamicSize, ...]:
    """Parses `batch=2..8,seq=1..128`. Raises `MindgapError`."""
    sizes: list[DynamicSize] = []
    for each in text.split(","):
        read = _RANGE.fullmatch(each.strip())
        if read is None or int(read["low"]) >= int(read["high"]):
            raise MindgapError(
                f"--dynamic {each}: write NAME=LOW..HIGH, as in batch=2..8 or tokens.1=1..128, with LOW < HIGH"
            )
        sizes.append(DynamicSize(read["name"], int(read["low"]), int(read["high"])))
    return tuple(sizes)
