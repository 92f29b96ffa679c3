"""The input of `diff` and its progress events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mindgap.graph import Graph
from mindgap.results.rows import Row


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to run. `graph` makes its graph; where it raises `MindgapError` the subject is refused.

    `source`: the arguments by which a command line names it; empty for a model of the Python API.
    `in_process`: `graph` runs PyTorch in this process, and so under the lock of its state.
    `stop`: ends a running `graph` from another thread.
    """

    name: str
    graph: Callable[[], Graph]
    source: str = ""
    in_process: bool = True
    stop: Callable[[], None] | None = None

    def captured(self) -> Graph:
        """Makes the graph, under the lock where it needs that. Raises what `graph` raises."""
        if not self.in_process:
            return self.graph()
        # Imported late: a process that captures nothing itself needs no PyTorch for that.
        from mindgap.aten.state import TORCH_STATE

        with TORCH_STATE:
            return self.graph()


Stage = Literal["captured", "ran", "judged", "refused", "doing", "expected"]


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One step is done: a subject was captured or refused, the reference ran, or a row was judged. Or one is being
    done (`doing`), which `text` names; these events come a few times a second at most. Or `text` says what a large
    model is expected to take (`expected`).

    `done` of `total` rows are finished. `row` comes with `judged`.
    """

    stage: Stage
    model: str
    platform: str
    done: int
    total: int
    row: Row | None = None
    text: str = ""


OnProgress = Callable[[ProgressEvent], None]
