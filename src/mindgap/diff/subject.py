"""The input of `diff` and its progress events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mindgap.graph import Graph
from mindgap.results.rows import Row


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to run. `graph` makes its graph; where it raises `MindgapError` the subject is refused."""

    name: str
    graph: Callable[[], Graph]


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One step is done: a subject was captured or refused, the reference ran, or a row was judged.

    `done` of `total` rows are finished. `row` comes with `judged`.
    """

    stage: Literal["captured", "ran", "judged", "refused"]
    model: str
    platform: str
    done: int
    total: int
    row: Row | None = None
