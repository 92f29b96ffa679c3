"""Client of the source worker: opens the sources of one command, captures their programs, explains its deaths."""

from __future__ import annotations

import math
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from mindgap.graph import Array, Graph, MindgapError, TensorStore, decode
from mindgap.platforms.environments import Environment
from mindgap.run.channel import Frame
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.source_files import is_installed, is_mindgaps, is_pythons, unescaped
from mindgap.run.worker_client import LEAST_S, CannotOpen, WorkerClient, WorkerStart
from mindgap.source_worker.preprocessing import Preprocessing, preprocessing_from
from mindgap.source_worker.worker import OpenedProgram

if TYPE_CHECKING:
    from typing import Self

Optimizer = Literal["sgd", "adamw"]

#: Seconds until a new worker must answer: it has imported no framework yet.
_START_S: Final = 120.0
#: Seconds for the search for submodules of a refused program that can be captured.
_WAY_ON_S: Final = 20.0
#: A line of faulthandler's dump of a Python stack, innermost frame first.
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+) in ')
_STAGES: Final = {
    "open": "opening it",
    "preprocessing": "building it",
    "build": "building it",
    "capture": "capturing it",
    "capturable_submodules": "running its submodules",
    "generate": "generating text with it",
}
_FAULTS: Final = {
    "timeout": "--deadline sets this limit",
    "crash": "its own code ended the process",
    "oom": "the model does not fit into memory",
}


class ProgramRefused(MindgapError):
    """A program was opened and built, and cannot be captured."""


class FileUntranslated(ProgramRefused):
    """A model file has no translation (`NoTranslation`): runtimes alone may run it. `reason`: why."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; the file itself is compared on platforms that read it (-p onnxruntime/cpu -p openvino/cpu)"
        )
        self.reason = reason


class FileInvalid(FileUntranslated):
    """The format's checker refuses a model file, for a reason that a runtime may forgive."""


class ProgramRaised(MindgapError):
    """A program fails by itself, in eager mode."""


#: By what the worker says of a program that was refused.
_ERRORS: Final = {
    "": MindgapError, "program": ProgramRefused, "raised": ProgramRaised, "untranslated": FileUntranslated,
    "invalid": FileInvalid,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source that was opened: its number, its text, its programs."""

    key: int
    source: str
    programs: tuple[OpenedProgram, ...]


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """A text that was generated in one way. tokens: int64 [N]. logits: that each was chosen by, [N, vocabulary].
    error: why there are none, empty where there are."""

    label: str
    tokens: Array
    logits: Array
    error: str = ""


class SourceClient:
    """Opens sources and captures their programs in a process of its own, which a user's code may end.

    Thread-safe. Use as a context manager: leaving it ends the process.
    """

    def __init__(
        self, tensors: TensorStore, deadline_s: float, budget_s: float | None = None, where: Environment | None = None
    ) -> None:
        """`deadline_s`: seconds for opening a source, and for one capture. `budget_s`: for all together, from now.

        `where`: the environment in which the user's code runs and is captured, None for mindgap's own. Raises
        `EnvironmentProblem` where no worker can run there.
        """
        if where is not None:
            where.check("torch")
        self.where = where
        self.tensors = tensors
        variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
        start = WorkerStart("mindgap.source_worker.worker:source_service", variables, where, forks=True)
        self._client = WorkerClient(
            start, {"tensors": str(tensors.path)}, RequestLimits(_START_S * (where.slower if where else 1))
        )
        self._deadline_s = deadline_s
        self._until = math.inf if budget_s is None else time.monotonic() + budget_s
        self._lock = threading.Lock()
        #: How many programs of each opened source the process holds.
        self._held: dict[int, int] = {}
        self._count = 0

    def open(self, source: str) -> OpenedSource:
        """Opens a source. Raises `MindgapError`, and `RuntimeError` where mindgap itself failed."""
        with self._lock:
            self._count += 1
            return self._open(self._count, source)

    def build(self, opened: OpenedSource, index: int) -> int:
        """Builds a program of an opened source; its capture takes it up. Returns the bytes of its weights, 0 for a
        graph. Raises `MindgapError`, and `RuntimeError` where mindgap itself failed."""
        with self._lock:
            self._reopen(opened)
            frame = self._ask({"kind": "build", "key": opened.key, "index": index}, opened.source)
        return int(frame.header["weights"])

    def preprocessing(self, opened: OpenedSource, index: int) -> Preprocessing | None:
        """Returns how the library of a program prepares images for it; None where that is not known. Before its
        capture. Raises as `build` does."""
        with self._lock:
            self._reopen(opened)
            frame = self._ask({"kind": "preprocessing", "key": opened.key, "index": index}, opened.source)
        return None if frame.header["found"] is None else preprocessing_from(frame.header["found"])

    def capture(
        self, opened: OpenedSource, index: int, *, backward: bool = False, optimizer: Optimizer | None = None
    ) -> Graph:
        """Captures a program of an opened source. Warns `UserWarning` where the capture is not proven.

        Raises `MindgapError`, and `RuntimeError` where mindgap itself failed.
        """
        with self._lock:
            key = opened.key
            self._reopen(opened)
            how = {"backward": backward, "optimizer": optimizer}
            try:
                frame = self._ask({"kind": "capture", "key": key, "index": index, **how}, opened.source)
            except FileUntranslated:
                raise
            except ProgramRefused as refused:
                raise type(refused)(f"{refused}{self._capturable_submodules(opened, index, how)}") from None
            finally:
                self._held[key] = self._held.get(key, 1) - 1
                if not any(self._held.values()):
                    self._stop()
        for warning in frame.header["warnings"]:
            warnings.warn(warning, stacklevel=2)
        return decode(frame.arrays[0].tobytes())

    def generate(self, source: str, prompt: int, steps: int, compiled: bool = False) -> list[GeneratedText]:
        """Generates text with `generate` of transformers after the source's own prompt, in several ways, the first of
        them alone (`sources.generation`).

        Raises `MindgapError` where the source is no causal language model, and `RuntimeError` where mindgap itself
        failed.
        """
        header = {"kind": "generate", "source": source, "prompt": prompt, "steps": steps, "compiled": compiled}
        with self._lock:
            frame = self._ask(header, source)
        pairs = zip(frame.arrays[::2], frame.arrays[1::2], strict=True)
        return [
            GeneratedText(each["label"], *pair, each["error"])
            for each, pair in zip(frame.header["texts"], pairs, strict=True)
        ]

    def _capturable_submodules(self, opened: OpenedSource, index: int, how: Mapping[str, object]) -> str:
        """Returns which submodules of a refused program can be captured, or "" if it cannot be found out."""
        source = opened.programs[index].source
        seconds = min(_WAY_ON_S, self._deadline_s / 4, (self._until - time.monotonic()) / 4)
        try:
            frame = self._ask({"kind": "capturable_submodules", "source": source, "seconds": seconds, **how}, source)
        except (MindgapError, RuntimeError):
            return ""
        return str(frame.header["text"])

    def stop(self) -> None:
        """Ends the process from another thread, which waits for it. Starts no other."""
        self._client.closing = True
        self._client.kill()

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop(self) -> None:
        self._held.clear()
        self._client.close()

    def _reopen(self, opened: OpenedSource) -> None:
        """Opens a source again whose process has ended."""
        worker = self._client.process
        if opened.key not in self._held or worker is None or not worker.alive:
            self._open(opened.key, opened.source)

    def _open(self, key: int, source: str) -> OpenedSource:
        programs = self._ask({"kind": "open", "key": key, "source": source}, source).header["programs"]
        self._held[key] = len(programs)
        return OpenedSource(key, source, tuple(OpenedProgram(**each) for each in programs))

    def _ask(self, header: Mapping[str, object], source: str) -> Frame:
        if self._client.closing:
            raise MindgapError(f"{source}: interrupted")
        if time.monotonic() >= self._until:
            raise MindgapError(f"{source}: not run: the time budget was used up")
        stage = _STAGES[str(header["kind"])]
        try:
            worker = self._client.started()
            left = self._until - time.monotonic()
            limits = RequestLimits(min(self._deadline_s, max(left, LEAST_S)), until=self._until)
            frame = self._client.ask(header, (), limits, stage)
        except CannotOpen as error:
            raise MindgapError(f"the process that opens sources cannot be started: {error}") from None
        except WorkerFailed as failed:
            self._stop()
            if failed.fault == "timeout" and time.monotonic() >= self._until:
                raise MindgapError(f"{source}: not run: the time budget was used up while {stage}") from None
            place = users_line(failed.tail)
            raise MindgapError(
                f"{source}: {failed.message}{f' ({place})' if place else ''}: "
                f"{abort_message(failed.tail) or _FAULTS[failed.fault]}"
            ) from None
        sys.stderr.write(worker.printed())
        if frame.header.get("spoiled"):
            self._stop()
        if frame.header["kind"] != "failed":
            return frame
        if frame.header["broken"]:
            raise RuntimeError(frame.header["broken"])
        raise _ERRORS[frame.header.get("refused", "")](str(frame.header["reason"]))


def abort_message(tail: str) -> str:
    """Returns the line in which a library said why it ended a process, before Python printed the stack; or ""."""
    before, ended, _ = tail.partition("Fatal Python error: Aborted")
    return (before.strip().splitlines() or [""])[-1] if ended else ""


def users_line(tail: str) -> str:
    """Returns `model.py:42`, the innermost frame of the user's code in a stack that a dying worker printed, or ""."""
    for line in tail.splitlines():
        frame = _FRAME.match(line)
        file = unescaped(frame[1]) if frame else "<"
        if frame and not (file.startswith("<") or is_mindgaps(file) or is_installed(file) or is_pythons(file, True)):
            return f"{os.path.basename(file)}:{frame[2]}"
    return ""
