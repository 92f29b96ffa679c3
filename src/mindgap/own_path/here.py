"""Runs a program of the Python API by the way of a platform's users, in the process that has it."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from mindgap.graph import MindgapError
from mindgap.own_path.own_program import OwnProgram
from mindgap.own_path.runners import NoOwnPath, program_runner_of, runner_json, way_of
from mindgap.own_path.runs import Located, OwnRun, Sensitivity, ShownDifference, located_of, own_run, sensitivity_of
from mindgap.own_path.user_program import AGAIN_S, SEARCH_S
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment
from mindgap.platforms.registry import find


class ProgramHere(OwnProgram):
    """A program of this process. A crash of an exporter or a runtime ends the process."""

    def __init__(self, program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        from mindgap.own_path.worker import Programs
        from mindgap.sources import Built

        self._programs = Programs(Built(program, tuple(args), dict(kwargs)))

    def run(self, platform: PlatformName) -> OwnRun | None:
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

    def locate(self, platform: PlatformName, shown: ShownDifference) -> Located | None:
        runner = program_runner_of(find(platform)[0], platform)
        assert runner is not None, "only what ran is located"
        with _quietly():
            request: dict[str, Any] = {"source": "", "runner": runner_json(runner), "seconds": SEARCH_S, "sizes": []}
            header, _ = self._programs.locate({**request, **dataclasses.asdict(shown)})
        return located_of(header)

    def sensitivity(self, platform: PlatformName) -> Sensitivity:
        with _quietly():
            header, _ = self._programs.sensitivity({"source": ""})
        return sensitivity_of(header)


@contextlib.contextmanager
def _quietly() -> Generator[None]:
    """Holds the lock of PyTorch's state, restores that state, and hides what the program warns of."""
    from mindgap.aten.state import TORCH_STATE
    from mindgap.aten.torch_private.process_state import undisturbed

    with TORCH_STATE, undisturbed(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
