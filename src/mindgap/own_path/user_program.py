"""A program of a source, which goes the way of each platform's users in processes of their own."""

from __future__ import annotations

import dataclasses
import logging
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mindgap.graph import MindgapError
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.own_program import OwnProgram
from mindgap.own_path.runners import NoOwnPath, is_model_file, probe_writer, program_runner_of
from mindgap.own_path.runs import (
    FileNodes,
    Located,
    OwnRun,
    Sensitivity,
    ShownDifference,
    SizedRuns,
    file_changes_of,
    file_nodes_of,
    located_of,
    own_run,
    sensitivity_of,
)
from mindgap.own_path.sizes import SizeRun
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment
from mindgap.platforms.registry import find
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.run.channel import Array, Frame
from mindgap.run.message import WorkerFailed
from mindgap.run.worker_client import CannotOpen
from mindgap.source_worker.client import ProgramRaised, abort_message, users_line

_log = logging.getLogger(__name__)

#: What took no longer to export and run is fed other arguments too.
AGAIN_S: Final = 10.0
#: Seconds for the search for the submodule at fault.
SEARCH_S: Final = 60.0


@dataclass(frozen=True)
class UserProgram(OwnProgram):
    """The only program of a source. `first`: the source of the first of several sets of its arguments, with which it is
    exported."""

    client: OwnPathClient
    source: str
    first: str = ""

    def run(self, platform: PlatformName) -> OwnRun | None:
        started = time.perf_counter()
        file = self._file(platform)
        if file is None and is_model_file(self.source):
            return None
        is_source = file is not None and platform not in self.client.files
        try:
            runner = self._runner(platform)
        except NoOwnPath as error:
            return OwnRun(platform, "", None, reason=str(error), fed=False)
        if runner is None:
            return None
        way = self.client.way(self.source, platform, runner)
        try:
            # A file is what it is: it is fed each set of arguments.
            group = "" if file is not None else self.first
            frame = self.client.ask("run", self.source, platform, runner, again_s=AGAIN_S, first=group)
        except WorkerFailed as failed:
            # What was ended from outside or by a budget is no fault of the platform.
            # Nor does a file that does not fit into memory with the program.
            too_large = failed.fault == "oom" and file is not None
            late = self.client.out_of_time
            fed = not (isinstance(failed, CannotOpen) or self.client.stopped or too_large or late)
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
        away = None if file is not None or isinstance(find(platform)[0], BackendInEnvironment) else self.client.where
        own = replace(own, source_file=is_source, environment=away.name if away is not None else "")
        return replace(own, first=self.first) if frame.header["first"] else own

    def run_sizes(self, platform: PlatformName, declared: bool) -> SizedRuns | None:
        if self.first not in ("", self.source) or is_model_file(self.source):
            return None
        if not self.client.dynamic and not declared:
            return None
        try:
            runner = self._runner(platform)
            if runner is None:
                return None
            header = self.client.ask("sizes", self.source, platform, runner, sizes=self._sizes()).header
        except (WorkerFailed, MindgapError) as error:
            crashed = isinstance(error, WorkerFailed) and error.fault == "crash" and not error.outside
            if not crashed or isinstance(error, CannotOpen) or self.client.stopped:
                return SizedRuns((), reason=str(error))
            return SizedRuns((SizeRun("one of the sizes", None, str(error)),))
        if header["failure"] is not None:
            failure = header["failure"]
            if failure["ours"] or failure["refused"]:
                return SizedRuns((), reason=failure["message"])
            run = SizeRun("the exported sizes", None, failure["message"], failure["line"])
            return SizedRuns((run,), at="".join(header["at"]))
        return SizedRuns(tuple(SizeRun(*each) for each in header["runs"]), tuple(header["left_out"]))

    def check_sizes(self, platform: PlatformName) -> None:
        """Raises `MindgapError` where no argument has a dynamic dimension that the user names."""
        runner = self._runner(platform)
        if runner is None or is_model_file(self.source):
            return
        try:
            self.client.ask("check_sizes", self.source, platform, runner, sizes=self._sizes())
        except WorkerFailed as failed:
            _log.info("%s: not checked before the run: %s", self.source, failed.message)

    def feed(self, platform: PlatformName, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Runs a source that is a model file on the tensors that its arguments are in order, and returns the outputs.

        Raises `MindgapError` where the platform does not read the file, or the file does not run there.
        """
        if not self.reads(platform):
            raise MindgapError(f"{platform.device_mode} does not read {self.source.partition('?')[0]}")
        try:
            frame = self._asked("feed", platform, arrays)
        except WorkerFailed as failed:
            raise MindgapError(failed.message) from None
        if frame.header["failure"] is not None:
            raise MindgapError(str(frame.header["failure"]))
        return frame.arrays

    def probe(
        self, platform: PlatformName, arrays: Sequence[Array]
    ) -> tuple[tuple[Array, ...], dict[str, Array]] | None:
        name, question, options = self.source.partition("?")
        write_probed = probe_writer(name)
        if write_probed is None:
            return None
        if platform in self.client.files:
            raise MindgapError(f"{self.client.files[platform].name} takes the place of the source there")
        try:
            with tempfile.TemporaryDirectory(prefix="mindgap-probed-") as folder:
                probed = write_probed(Path(name), Path(folder))
                if probed is None:
                    return None
                reply = UserProgram(self.client, f"{probed.path}{question}{options}").feed(platform, arrays)
        except OSError as error:  # a full disk
            raise MindgapError(f"{name} cannot be copied with its integers as outputs: {error}") from error
        if len(reply) != probed.all:
            raise MindgapError(f"{platform} gives {len(reply)} outputs of {probed.all}")
        return reply[: probed.own], {node: reply[place] for node, place in probed.nodes.items()}

    def wrong_nodes(
        self, platform: PlatformName, apart: float | None, arrays: Sequence[Array] = (), folder: Path | None = None
    ) -> FileNodes:
        file = self._file(platform)
        if file is None or file.suffix != ".onnx" or platform in self.client.files:
            return OwnProgram.wrong_nodes(self, platform, apart)
        more = {"apart": apart, "path": str(file), "seconds": self._search_s}
        try:
            where = "" if folder is None else str(folder.resolve())
            header = self._asked("nodes", platform, arrays, folder=where, **more).header
        except (WorkerFailed, MindgapError) as error:
            return FileNodes(reason=str(error))
        return file_nodes_of(header)

    def reads(self, platform: PlatformName) -> bool:
        return self._file(platform) is not None

    def locate(self, platform: PlatformName, shown: ShownDifference) -> Located | None:
        if is_model_file(self.source):
            return None
        if (file := self._file(platform)) is not None:
            path = file.resolve()
            frame = self._answered("changes", platform, path=str(path)) if path.suffix == ".onnx" else None
            return None if frame is None else Located("", "", changes=file_changes_of(frame.header))
        more = {"seconds": self._search_s, "sizes": self._sizes(), **dataclasses.asdict(shown)}
        frame = self._answered("locate", platform, **more)
        return None if frame is None else located_of(frame.header)

    def eager_again(self, platform: PlatformName) -> Sequence[Array]:
        frame = self._answered("eager", platform)
        return () if frame is None else frame.arrays

    def sensitivity(self, platform: PlatformName) -> Sensitivity:
        frame = self._answered("sensitivity", platform)
        return Sensitivity() if frame is None else sensitivity_of(frame.header)

    def end_idle(self) -> None:
        self.client.end_idle()

    def stop(self) -> None:
        self.client.stop()

    @property
    def _search_s(self) -> float:
        return min(SEARCH_S, self.client.deadline_s)

    def _sizes(self) -> list[list[str | int]]:
        return [[each.name, each.low, each.high] for each in self.client.dynamic]

    def _file(self, platform: PlatformName) -> Path | None:
        return self.client.file_of(self.source, platform)

    def _runner(self, platform: PlatformName) -> ScriptRunner | None:
        return program_runner_of(find(platform)[0], platform, self._file(platform))

    def _asked(self, kind: str, platform: PlatformName, arrays: Sequence[Array] = (), **more: object) -> Frame:
        runner = self._runner(platform)
        assert runner is not None, "only what runs is asked about"
        return self.client.ask(kind, self.source, platform, runner, arrays, **more)

    def _answered(self, kind: str, platform: PlatformName, **more: object) -> Frame | None:
        """The answer about a program that ran; None where that fails."""
        try:
            return self._asked(kind, platform, (), **more)
        except (WorkerFailed, MindgapError):
            return None
