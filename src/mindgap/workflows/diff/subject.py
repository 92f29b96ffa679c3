"""The input of `diff` and its progress events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mindgap.graph import Graph
from mindgap.own_path.own_program import OwnProgram
from mindgap.results.rows import Row


@dataclass(frozen=True, slots=True)
class FloatModel:
    """The model that a subject was quantised from. `source`: its name; `graph` makes its graph, and may raise
    `MindgapError`."""

    source: str
    graph: Callable[[], Graph]


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to run. `graph` makes its graph; where it raises `MindgapError` the subject is refused.

    `source`: the arguments by which a command line names it; empty for a model of the Python API.
    `in_process`: `graph` runs PyTorch in this process, and so under the lock of its state.
    `stop`: ends a running `graph` from another thread.
    `program`: runs the program by the way of a platform's users; None for a graph without a program.
    `group`: the name of the program of which this is one of several sets of arguments; the report has one row per
    platform for all of them (`results.argument_sets`).
    `weights`: builds the program and returns the bytes of its weights, before `graph` captures it; None where that is
    not known before.
    `float_model`: what quantisation costs is measured against; None where not requested.
    """

    name: str
    graph: Callable[[], Graph]
    source: str = ""
    in_process: bool = True
    stop: Callable[[], None] | None = None
    program: OwnProgram | None = None
    group: str = ""
    weights: Callable[[], int] | None = None
    float_model: FloatModel | None = None

    def captured(self) -> Graph:
        """Makes the graph, under the lock where it needs that. Raises what `graph` raises."""
        return self.locked(self.graph)

    def locked(self, graph: Callable[[], Graph]) -> Graph:
        """Calls what makes a graph as this subject's is made."""
        if not self.in_process:
            return graph()
        # Imported late: a process that captures nothing itself needs no PyTorch for that.
        from mindgap.aten.state import TORCH_STATE
        from mindgap.aten.torch_private.process_state import undisturbed

        with TORCH_STATE, undisturbed():
            return graph()


Stage = Literal["captured", "ran", "judged", "refused", "doing", "expected"]


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One step is done: a subject was captured or refused, the reference ran, or a row was judged. Or one is being
    done (`doing`), which `text` names; these events come a few times a second at most. Or `text` is what a large
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
