"""Client of the workers that run a program by the way of a platform's users, as a rule one for each environment."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mindgap.graph import MindgapError
from mindgap.own_path.processes import SLOW_S, Processes
from mindgap.own_path.runners import (
    NoOwnPath,
    is_model_file,
    probe_writer,
    program_runner_of,
    runner_json,
    way_of,
)
from mindgap.own_path.runs import (
    FileNodes,
    Located,
    OwnRun,
    Sensitivity,
    ShownDifference,
    SizedRuns,
    file_changes_of,
    file_nodes_of,
    own_run,
)
from mindgap.own_path.sizes import DynamicSize, SizeRun
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
from mindgap.source_worker.client import ProgramRaised, abort_message, users_line

if TYPE_CHECKING:
    from typing import Self


_log = logging.getLogger(__name__)

_START_S: Final = 120.0
#: What took no longer to export and run is fed other arguments too.
AGAIN_S: Final = 10.0
#: Seconds for the search for the submodule at fault.
SEARCH_S: Final = 60.0


class OwnPathClient:
    """Runs programs by the way of platforms' users, in separate processes. Thread-safe; a context manager."""

    def __init__(
        self, deadline_s: float, files: Mapping[PlatformName, Path] | None = None, dynamic: Sequence[DynamicSize] = (),
        budget_s: float | None = None, input_map: Sequence[tuple[str, str]] = (), where: Environment | None = None,
    ) -> None:  # fmt: skip
        """`deadline_s`: seconds for one program on one platform. `files`: ready-made models of the program, which run
        in place of an export. `dynamic`: dimensions that `run_sizes` exports as dynamic ones. `budget_s`: for all
        together, from now. `input_map`: (argument, input of a file) where their names differ. `where`: the environment
        of the programs, in which those of platforms of mindgap's own environment run."""
        self._deadline_s, self._files, self._dynamic = deadline_s, dict(files or {}), tuple(dynamic)
        self._input_map = [list(each) for each in input_map]
        self._until = math.inf if budget_s is None else time.monotonic() + budget_s
        self._stopped, self._capture_env = False, where
        self._processes: dict[tuple[str, tuple[tuple[str, str], ...]], Processes] = {}
        #: What a source sets of the variables that PyTorch's compiler reads at its import: its processes begin with it.
        self._variables: dict[str, Mapping[str, str]] = {}
        self._lock = threading.Lock()
        # A process dies with the thread that started it, and callers' threads are short.
        self._starter = ThreadPoolExecutor(1, "mindgap-own-path")

    def run(self, source: str, platform: PlatformName, first: str = "") -> OwnRun | None:
        """Runs the only program of a source. None for eager mode, which exports nothing, and for a model file that the
        platform does not read. `first`: the source of the first of several sets of its arguments, with which it is
        exported."""
        started = time.perf_counter()
        file = self._file(source, platform)
        if file is None and is_model_file(source):
            return None
        is_source = file is not None and platform not in self._files
        try:
            backend = find(platform)[0]
            runner = program_runner_of(backend, platform, file)
        except NoOwnPath as error:
            return OwnRun(platform, "", None, reason=str(error), fed=False)
        if runner is None:
            return None
        way, away = self._way(source, platform, runner), self._capture_env if file is None else None
        away = None if isinstance(backend, BackendInEnvironment) else away
        try:
            # A file is what it is: it is fed each set of arguments.
            group = "" if file is not None else first
            frame = self._ask("run", source, platform, backend, runner, again_s=AGAIN_S, first=group)
        except WorkerFailed as failed:
            # What was ended from outside or by a budget is no fault of the platform.
            # Nor does a file that does not fit into memory with the program.
            too_large = failed.fault == "oom" and file is not None
            late = time.monotonic() >= self._until
            fed = not (isinstance(failed, CannotOpen) or self._stopped or too_large or late)
            line = users_line(failed.tail)
            why = abort_message(failed.tail)
            reason = f"{failed.message}{f': {why}' if why else ''}"
            return OwnRun(
                platform, way, None, reason=reason, line=line, step=way if fed else "", fed=fed,
                file=file is not None, source_file=is_source and not fed,
            )  # fmt: skip
        except MindgapError as error:
            raised = isinstance(error, ProgramRaised)
            return OwnRun(
                platform, way, None, reason=str(error), fed=False, raised=raised, absent=not raised,
                source_file=is_source,
            )  # fmt: skip
        seconds = time.perf_counter() - started
        own = own_run(platform, way, frame.header, frame.arrays, seconds, file=file is not None)
        own = replace(own, source_file=is_source)
        own = replace(own, environment=away.name if away is not None else "")
        return replace(own, first=first) if frame.header["first"] else own

    def run_sizes(self, source: str, platform: PlatformName, declared: bool) -> SizedRuns | None:
        """Exports the only program of a source with dynamic dimensions, and runs it at several sizes; a ready-made file
        is run at these sizes. None where none are requested, and none `declared` by the source, or the platform exports
        nothing."""
        backend = find(platform)[0]
        if (not self._dynamic and not declared) or is_model_file(source):
            return None
        try:
            runner = program_runner_of(backend, platform, self._files.get(platform))
            if runner is None:
                return None
            header = self._ask("sizes", source, platform, backend, runner, sizes=self._sizes()).header
        except (WorkerFailed, MindgapError) as error:
            return SizedRuns((), reason=str(error))
        if header["failure"] is not None:
            failure = header["failure"]
            if failure["ours"] or failure["refused"]:
                return SizedRuns((), reason=failure["message"])
            run = SizeRun("the exported sizes", None, failure["message"], failure["line"])
            return SizedRuns((run,), at="".join(header["at"]))
        return SizedRuns(tuple(SizeRun(*each) for each in header["runs"]), tuple(header["left_out"]))

    def check_sizes(self, source: str, platform: PlatformName) -> None:
        """Raises `MindgapError` where no argument of a program has a dynamic dimension that the user names."""
        backend = find(platform)[0]
        runner = program_runner_of(backend, platform, self._files.get(platform))
        if runner is None or is_model_file(source):
            return
        try:
            self._ask("check_sizes", source, platform, backend, runner, sizes=self._sizes())
        except WorkerFailed as failed:
            _log.info("%s: not checked before the run: %s", source, failed.message)

    def feed(self, source: str, platform: PlatformName, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Runs a source that is a model file on the tensors that its arguments are in order, and returns the outputs.

        Raises `MindgapError` where the platform does not read the file, or the file does not run there.
        """
        file = self._file(source, platform)
        if file is None:
            raise MindgapError(f"{platform.device_mode} does not read {source.partition('?')[0]}")
        backend = find(platform)[0]
        runner = program_runner_of(backend, platform, file)
        assert runner is not None, "a platform that reads files has a runner for them"
        try:
            frame = self._ask("feed", source, platform, backend, runner, arrays=arrays)
        except WorkerFailed as failed:
            raise MindgapError(failed.message) from None
        if frame.header["failure"] is not None:
            raise MindgapError(str(frame.header["failure"]))
        return frame.arrays

    def probe(
        self, source: str, platform: PlatformName, arrays: Sequence[Array]
    ) -> tuple[tuple[Array, ...], dict[str, Array]] | None:
        """Runs a source that is a quantised model file on the tensors that its arguments are, with its integers as
        further outputs. Returns the outputs, and the integers by the name of their node; None for a file that has none.

        Raises `MindgapError` as `feed` does.
        """
        name, question, options = source.partition("?")
        write_probed = probe_writer(name)
        if write_probed is None:
            return None
        if platform in self._files:
            raise MindgapError(f"{self._files[platform].name} takes the place of the source there")
        try:
            with tempfile.TemporaryDirectory(prefix="mindgap-probed-") as folder:
                probed = write_probed(Path(name), Path(folder))
                if probed is None:
                    return None
                reply = self.feed(f"{probed.path}{question}{options}", platform, arrays)
        except OSError as error:  # a full disk
            raise MindgapError(f"{name} cannot be copied with its integers as outputs: {error}") from error
        if len(reply) != probed.all:
            raise MindgapError(f"{platform} gives {len(reply)} outputs of {probed.all}")
        return reply[: probed.own], {node: reply[place] for node, place in probed.nodes.items()}

    def wrong_nodes(
        self, source: str, platform: PlatformName, apart: float | None, arrays: Sequence[Array] = (),
        folder: Path | None = None,
    ) -> FileNodes:  # fmt: skip
        """Finds the nodes of an ONNX file that a platform computes otherwise by themselves (`file_nodes.wrong_nodes`).
        `apart`: how far the file is off, None where it fails. `arrays`: in place of its arguments."""
        file = self._file(source, platform)
        if file is None or file.suffix != ".onnx" or platform in self._files:
            return FileNodes(reason="no ONNX file that the platform reads")
        backend = find(platform)[0]
        runner = program_runner_of(backend, platform, file)
        assert runner is not None, "a platform that reads files has a runner for them"
        more = {"apart": apart, "path": str(file), "seconds": min(SEARCH_S, self._deadline_s)}
        try:
            where = "" if folder is None else str(folder.resolve())
            header = self._ask("nodes", source, platform, backend, runner, arrays=arrays, folder=where, **more).header
        except (WorkerFailed, MindgapError) as error:
            return FileNodes(reason=str(error))
        return file_nodes_of(header)

    def reads(self, source: str, platform: PlatformName) -> bool:
        """Returns whether a source is a model file that the platform is given as it is."""
        return self._file(source, platform) is not None

    def _sizes(self) -> list[list[str | int]]:
        return [[each.name, each.low, each.high] for each in self._dynamic]

    def locate(self, source: str, platform: PlatformName, shown: ShownDifference) -> Located | None:
        """Finds the submodule that shows it by itself; of an ONNX file that ran in place of an export, how it differs
        from the program. None where that is unknown."""
        if is_model_file(source):
            return None
        if platform in self._files:
            path = self._files[platform].resolve()
            is_file = path.suffix == ".onnx"
            frame = self._ask_of_program("changes", source, platform, path=str(path)) if is_file else None
            return None if frame is None else Located("", "", changes=file_changes_of(frame.header))
        backend = find(platform)[0]
        runner = program_runner_of(backend, platform)
        assert runner is not None, "only what ran is located"
        seconds = min(SEARCH_S, self._deadline_s)
        try:
            header = self._ask(
                "locate", source, platform, backend, runner, seconds=seconds, sizes=self._sizes(),
                **dataclasses.asdict(shown),
            ).header  # fmt: skip
        except (WorkerFailed, MindgapError):
            return None
        return Located(**{each.name: header[each.name] for each in dataclasses.fields(Located)})

    def eager_again(self, source: str, platform: PlatformName) -> Sequence[Array]:
        """Builds the only program of a source again and returns its outputs in eager mode; none where that fails."""
        frame = self._ask_of_program("eager", source, platform)
        return () if frame is None else frame.arrays

    def sensitivity(self, source: str, platform: PlatformName) -> Sensitivity:
        """Returns how far the program's outputs are from themselves in eager mode (`program_run.sensitivity`)."""
        frame = self._ask_of_program("sensitivity", source, platform)
        if frame is None:
            return Sensitivity()
        return Sensitivity(float(frame.header["moved"]), float(frame.header["exact"]))

    def _ask_of_program(self, kind: str, source: str, platform: PlatformName, **more: str) -> Frame | None:
        """Asks about a program that ran; None where that fails."""
        backend = find(platform)[0]
        runner = program_runner_of(backend, platform, self._files.get(platform))
        assert runner is not None, "only what ran is asked about"
        try:
            return self._ask(kind, source, platform, backend, runner, (), **more)
        except (WorkerFailed, MindgapError):
            return None

    def end_idle(self) -> None:
        """Ends the processes that work on no request, which keep the last program."""
        with self._lock:
            processes = [*self._processes.values()]
        for each in processes:
            each.end_idle()

    def stop(self) -> None:
        """Ends the processes from another thread."""
        self._stopped = True
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

    def _ask(
        self,
        kind: str,
        source: str,
        platform: PlatformName,
        backend: Backend,
        runner: ScriptRunner,
        arrays: Sequence[Array] = (),
        **more: object,
    ) -> Frame:
        """Raises `WorkerFailed`, and `MindgapError` for a program that cannot be opened or built there."""

        def started(client: WorkerClient) -> None:
            if self._stopped or time.monotonic() >= self._until:  # others may have been waited for
                raise MindgapError("interrupted" if self._stopped else "the time budget was used up")
            try:
                client.started(None if math.isinf(self._until) else self._until)
            except CannotOpen:
                raise
            except WorkerFailed as failed:  # the program has not reached it
                raise CannotOpen(failed.message, permanent=False) from failed

        with self._processes_of(source, platform, backend, runner).taken(started) as client:
            left = self._until - time.monotonic()
            file = {"file": self._file(source, platform) is not None, "input_map": self._input_map}
            prepare = [runner.prepare, dict(platform.backend_options)] if runner.prepare else []
            header = {
                "kind": kind, "source": source, "runner": runner_json(runner), "prepare": prepare, **file, **more,
            }  # fmt: skip
            stage = f"running the program by {self._way(source, platform, runner)}"
            seconds = self._deadline_s * _slower(backend, self._capture_env)
            limits = RequestLimits(min(seconds, max(left, LEAST_S)), until=self._until)
            frame = client.ask(header, arrays, limits, stage)
            if frame.header.get("spoiled"):
                client.close()
        if frame.header.get("variables") and source not in self._variables:
            self._variables[source] = frame.header["variables"]
            return self._ask(kind, source, platform, backend, runner, arrays, **more)
        if frame.header["kind"] in ("failed", "refused"):
            broken = str(frame.header.get("broken", ""))
            if broken:
                raise RuntimeError(broken)
            error = ProgramRaised if frame.header.get("refused") == "raised" else MindgapError
            raise error(str(frame.header.get("reason") or frame.header.get("message")))
        return frame

    def _way(self, source: str, platform: PlatformName, runner: ScriptRunner) -> str:
        file = self._file(source, platform)
        return way_of(runner) if file is None else file.name

    def _file(self, source: str, platform: PlatformName) -> Path | None:
        """The file that runs in place of an export: the one given for the platform, or the source itself."""
        if platform in self._files or not is_model_file(source):
            return self._files.get(platform)
        own, file = declared(find(platform)[0]), Path(source.partition("?")[0])
        taken = "inside=" not in source and isinstance(own, RunsFiles) and file.suffix in own.file_suffixes
        return file if taken else None

    def _processes_of(self, source: str, platform: PlatformName, backend: Backend, runner: ScriptRunner) -> Processes:
        """Raises `MindgapError` where no worker can run there, or the environment of the programs lacks the runtime."""
        where = self._capture_env
        if isinstance(backend, BackendInEnvironment):
            assert isinstance(backend.where, Environment), "programs do not go to hosts"
            where = backend.where
        if where is not None:
            where.check("torch")
            if missing := [name for name in runner.packages if name not in where.versions(*runner.packages)]:
                raise MindgapError(f"environment {where.name} lacks {', '.join(missing)}: install it there")
        variables = {**backend.environment(platform.backend_options), **self._variables.get(source, {})}
        key = (where.name if where else "", tuple(sorted(variables.items())))
        limits = RequestLimits(_START_S * _slower(backend, self._capture_env))
        start = WorkerStart(
            "mindgap.own_path.worker:own_path_service",
            {**os.environ, "PYTHONUNBUFFERED": "1", **variables}, where, True, self._starter,
        )  # fmt: skip
        with self._lock:
            return self._processes.setdefault(
                key, Processes(partial(WorkerClient, start, {}, limits), SLOW_S * _slower(backend, self._capture_env))
            )


def _slower(backend: Backend, away: Environment | None) -> float:
    """So many times the deadlines of this machine's own processor are allowed where a backend runs. `away`: the
    environment of what has none."""
    where = backend.where if isinstance(backend, BackendInEnvironment) else away
    return where.slower if where is not None else 1.0
