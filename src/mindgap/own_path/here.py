"""Runs a program of the Python API by the way of a platform's users, in the process that has it."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mindgap.graph import Array, MindgapError
from mindgap.own_path.client import AGAIN_S, SEARCH_S
from mindgap.own_path.runners import NoOwnPath, program_runner_of, runner_json, way_of
from mindgap.own_path.runs import FileNodes, Located, OwnRun, Sensitivity, ShownDifference, SizedRuns, own_run
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment
from mindgap.platforms.registry import find


class ProgramHere:
    """A program of this process. A crash of an exporter or a runtime ends the process."""

    def __init__(self, program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        from mindgap.own_path.worker import Programs
        from mindgap.sources import Built

        self._programs = Programs(Built(program, tuple(args), dict(kwargs)))

    def run(self, platform: PlatformName) -> OwnRun | None:
        """Runs it. None for eager mode, which exports nothing."""
        from mindgap.graph_capture.errors import ProgramError

        started = time.perf_counter()
        backend = find(platform)[0]
        if isinstance(backend, BackendInEnvironment):
            why = "a model of the Python API stays in its process: `mindgap diff` takes a program to other environments"
            return OwnRun(platform, "", None, reason=why, fed=False)
        try:
            runner = program_runner_of(backend, platform)
        except NoOwnPath as error:
            return OwnRun(platform, "", None, reason=str(error), fed=False)
        if runner is None:
            return None
        request = {"source": "", "runner": runner_json(runner), "again_s": AGAIN_S, "first": ""}
        try:
            with _quietly():
                header, arrays = self._programs.run(request)
        except MindgapError as error:
            raised = isinstance(error, ProgramError)
            return OwnRun(platform, way_of(runner), None, reason=str(error), fed=False, raised=raised)
        return own_run(platform, way_of(runner), header, arrays, time.perf_counter() - started)

    def run_sizes(self, platform: PlatformName, declared: bool) -> SizedRuns | None:
        """None: the Python API takes no dynamic dimensions."""
        return None

    def locate(self, platform: PlatformName, shown: ShownDifference) -> Located | None:
        """Finds the submodule that shows it by itself."""
        runner = program_runner_of(find(platform)[0], platform)
        assert runner is not None, "only what ran is located"
        with _quietly():
            request: dict[str, Any] = {"source": "", "runner": runner_json(runner), "seconds": SEARCH_S, "sizes": []}
            header, _ = self._programs.locate({**request, **dataclasses.asdict(shown)})
        return Located(**{each.name: header[each.name] for each in dataclasses.fields(Located)})

    def eager_again(self, platform: PlatformName) -> Sequence[Array]:
        """None: a program of this process is not built again."""
        return ()

    def sensitivity(self, platform: PlatformName) -> Sensitivity:
        """Returns how far the outputs are from themselves in eager mode."""
        with _quietly():
            header, _ = self._programs.sensitivity({"source": ""})
        return Sensitivity(float(header["moved"]), float(header["exact"]))

    def probe(self, platform: PlatformName, arrays: Sequence[Array]) -> None:
        """None: a program of this process is no model file."""
        return None

    def wrong_nodes(
        self, platform: PlatformName, apart: float | None, arrays: Sequence[Array] = (), folder: Path | None = None
    ) -> FileNodes:
        """None: a program of this process is no model file."""
        return FileNodes(reason="a program of this process is no model file")

    def reads(self, platform: PlatformName) -> bool:
        """False: a program of this process is no model file."""
        return False

    def end_idle(self) -> None:
        """Nothing: there is no other process."""

    def stop(self) -> None:
        """Nothing: what runs in this process ends by itself."""


@contextlib.contextmanager
def _quietly() -> Generator[None]:
    """Holds the lock of PyTorch's state, restores that state, and hides what the program warns of."""
    from mindgap.aten.state import TORCH_STATE
    from mindgap.aten.torch_private.process_state import undisturbed

    with TORCH_STATE, undisturbed(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
