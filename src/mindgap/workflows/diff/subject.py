"""The input of `diff` and its progress events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from mindgap.graph import Array, Graph
from mindgap.own_path.runs import FileNodes, Located, OwnRun, Sensitivity, ShownDifference, SizedRuns
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Row


class OwnProgram(Protocol):
    """The program of a subject, which goes the way of each platform's users."""

    def run(self, platform: PlatformName) -> OwnRun | None:
        """Runs it. None for eager mode, which exports nothing."""
        ...

    def run_sizes(self, platform: PlatformName, declared: bool) -> SizedRuns | None:
        """Runs one export with dynamic dimensions at several sizes. None where none are requested, nor `declared` by
        the program's source."""
        ...

    def locate(self, platform: PlatformName, shown: ShownDifference) -> Located | None:
        """Finds the submodule that shows it by itself. None where that is not known."""
        ...

    def eager_again(self, platform: PlatformName) -> Sequence[Array]:
        """Builds the program again and returns its outputs in eager mode; none where that fails."""
        ...

    def sensitivity(self, platform: PlatformName) -> Sensitivity:
        """Returns how far the outputs are from themselves in eager mode."""
        ...

    def probe(
        self, platform: PlatformName, arrays: Sequence[Array]
    ) -> tuple[tuple[Array, ...], dict[str, Array]] | None:
        """Runs a quantised model file on these tensors, and returns its outputs and its integers by the name of their
        node; None for another program. Raises `MindgapError` where it does not run so."""
        ...

    def wrong_nodes(
        self, platform: PlatformName, apart: float | None, arrays: Sequence[Array] = (), folder: Path | None = None
    ) -> FileNodes:
        """Finds the nodes of a model file that the platform computes otherwise. `apart`: how far the file is off, None
        where it fails. `arrays`: in place of its arguments. `folder`: where the first node is written."""
        ...

    def reads(self, platform: PlatformName) -> bool:
        """Whether it is a model file, or has a ready-made one, that the platform is given as it is."""
        ...

    def end_idle(self) -> None:
        """Ends processes that keep the program's memory; the next call starts them again."""
        ...

    def stop(self) -> None:
        """Ends what runs, from another thread."""
        ...


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
