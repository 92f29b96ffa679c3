"""The settings of a portability study."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PortingSettings:
    """top, per_decile: how many of the most used functions, and how many at random of each decile of usage.
    seed: of the draw, and of the files that are scanned.
    files: Python files that are parsed for one framework at most.
    processes: in which each function is measured; rounds: calls in each of them, after the first.
    deadline_s, memory_bytes: of one function in one process; of one graph on a platform."""

    top: int = 20
    per_decile: int = 5
    seed: int = 0
    files: int = 3000
    processes: int = 3
    rounds: int = 15
    deadline_s: float = 60.0
    memory_bytes: int = 4 << 30

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
