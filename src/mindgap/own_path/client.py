"""The processes that run programs by the way of a platform's users, as a rule one for each environment."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mindgap.graph import MindgapError
from mindgap.own_path.processes import SLOW_S, Processes
from mindgap.own_path.runners import is_model_file, runner_json, way_of
from mindgap.own_path.sizes import DynamicSize
from mindgap.platforms.environments import Environment
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment, declared
from mindgap.platforms.protocol import Backend, RunsFiles
from mindgap.platforms.registry import find
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.run.channel import Array, Frame
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import LEAST_S, CannotOpen, WorkerClient, WorkerStart
from mindgap.source_worker.client import ProgramRaised

if TYPE_CHECKING:
    from typing import Self


_START_S: Final = 120.0


class OwnPathClient:
    """Sends requests about programs (`UserProgram`) to processes. Thread-safe; a context manager."""

    def __init__(
        self, deadline_s: float, files: Mapping[PlatformName, Path] | None = None, dynamic: Sequence[DynamicSize] = (),
        budget_s: float | None = None, input_map: Sequence[tuple[str, str]] = (), where: Environment | None = None,
    ) -> None:  # fmt: skip
        """`deadline_s`: seconds for one program on one platform. `files`: ready-made models of the program, which run
        in place of an export. `dynamic`: dimensions that `run_sizes` of programs exports as dynamic ones. `budget_s`:
        for all together, from now. `input_map`: (argument, input of a file) where their names differ. `where`: the
        environment of the programs, in which those of platforms of mindgap's own environment run."""
        self.deadline_s, self.files, self.dynamic = deadline_s, dict(files or {}), tuple(dynamic)
        self._input_map = [list(each) for each in input_map]
        self._until = math.inf if budget_s is None else time.monotonic() + budget_s
        self.stopped, self.where = False, where
        self._processes: dict[tuple[str, tuple[tuple[str, str], ...]], Processes] = {}
        #: What a source sets of the variables that PyTorch's compiler reads at its import: its processes begin with it.
        self._variables: dict[str, Mapping[str, str]] = {}
        self._lock = threading.Lock()
        # A process dies with the thread that started it, and callers' threads are short.
        self._starter = ThreadPoolExecutor(1, "mindgap-own-path")

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() >= self._until

    def end_idle(self) -> None:
        """Ends the processes that work on no request, which keep the last program."""
        with self._lock:
            processes = [*self._processes.values()]
        for each in processes:
            each.end_idle()

    def stop(self) -> None:
        """Ends the processes from another thread."""
        self.stopped = True
        with self._lock:
            processes = [*self._processes.values()]
        for each in processes:
            each.kill()

    def close(self) -> None:
        for each in [*self._processes.values()]:
            each.close()
        self._starter.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self, kind: str, source: str, platform: PlatformName, runner: ScriptRunner, arrays: Sequence[Array] = (),
        **more: object,
    ) -> Frame:  # fmt: skip
        """Sends a request about the only program of a source. Raises `WorkerFailed`, and `MindgapError` for a program
        that cannot be opened or built there."""
        backend = find(platform)[0]

        def started(client: WorkerClient) -> None:
            if self.stopped or self.out_of_time:  # others may have been waited for
                raise MindgapError("interrupted" if self.stopped else "the time budget was used up")
            try:
                client.started(None if math.isinf(self._until) else self._until)
            except CannotOpen:
                raise
            except WorkerFailed as failed:  # the program has not reached it
                raise CannotOpen(failed.message, permanent=False) from failed

        with self._processes_of(source, platform, backend, runner).taken(started) as client:
            left = self._until - time.monotonic()
            file = {"file": self.file_of(source, platform) is not None, "input_map": self._input_map}
            prepare = [runner.prepare, dict(platform.backend_options)] if runner.prepare else []
            header = {
                "kind": kind, "source": source, "runner": runner_json(runner), "prepare": prepare, **file, **more,
            }  # fmt: skip
            stage = f"running the program by {self.way(source, platform, runner)}"
            seconds = self.deadline_s * _slower(backend, self.where)
            limits = RequestLimits(min(seconds, max(left, LEAST_S)), until=self._until)
            frame = client.ask(header, arrays, limits, stage)
            if frame.header.get("spoiled"):
                client.close()
        if frame.header.get("variables") and source not in self._variables:
            self._variables[source] = frame.header["variables"]
            return self.ask(kind, source, platform, runner, arrays, **more)
        if frame.header["kind"] in ("failed", "refused"):
            broken = str(frame.header.get("broken", ""))
            if broken:
                raise RuntimeError(broken)
            error = ProgramRaised if frame.header.get("refused") == "raised" else MindgapError
            raise error(str(frame.header.get("reason") or frame.header.get("message")))
        return frame

    def way(self, source: str, platform: PlatformName, runner: ScriptRunner) -> str:
        """What runs a program: the call that exports it, or the name of a file."""
        file = self.file_of(source, platform)
        return way_of(runner) if file is None else file.name

    def file_of(self, source: str, platform: PlatformName) -> Path | None:
        """The file that runs in place of an export: the one given for the platform, or the source itself."""
        if platform in self.files or not is_model_file(source):
            return self.files.get(platform)
        own, file = declared(find(platform)[0]), Path(source.partition("?")[0])
        taken = "inside=" not in source and isinstance(own, RunsFiles) and file.suffix in own.file_suffixes
        return file if taken else None

    def _processes_of(self, source: str, platform: PlatformName, backend: Backend, runner: ScriptRunner) -> Processes:
        """Raises `MindgapError` where no worker can run there, or the environment of the programs lacks the runtime."""
        where = self.where
        if isinstance(backend, BackendInEnvironment):
            assert isinstance(backend.where, Environment), "programs do not go to hosts"
            where = backend.where
        if where is not None:
            where.check("torch")
            if missing := [name for name in runner.packages if name not in where.versions(*runner.packages)]:
                raise MindgapError(f"environment {where.name} lacks {', '.join(missing)}: install it there")
        variables = {**backend.environment(platform.backend_options), **self._variables.get(source, {})}
        key = (where.name if where else "", tuple(sorted(variables.items())))
        limits = RequestLimits(_START_S * _slower(backend, self.where))
        start = WorkerStart(
            "mindgap.own_path.worker:own_path_service",
            {**os.environ, "PYTHONUNBUFFERED": "1", **variables}, where, True, self._starter,
        )  # fmt: skip
        with self._lock:
            return self._processes.setdefault(
                key, Processes(partial(WorkerClient, start, {}, limits), SLOW_S * _slower(backend, self.where))
            )


def _slower(backend: Backend, away: Environment | None) -> float:
    """So many times the deadlines of this machine's own processor are allowed where a backend runs. `away`: the
    environment of what has none."""
    where = backend.where if isinstance(backend, BackendInEnvironment) else away
    return where.slower if where is not None else 1.0
