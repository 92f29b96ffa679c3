"""Client of one capture worker: starts it, sends requests, enforces limits, reports its death as a reason."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.run.channel import Frame
from mindgap.run.message import WorkerFailed
from mindgap.run.message_cleaning import shortened_paths
from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import WorkerClient, WorkerStart

_log = logging.getLogger(__name__)

#: Seconds until a new worker must answer: it has imported no framework yet.
_START_S: Final = 120.0
#: A worker that holds more than this between sources is replaced: zoos leave caches behind.
_RECYCLE_BYTES: Final = 3 << 30
#: Listing the names of a library may take so many times what a model may.
_LISTING: Final = 4.0

#: Whether a traced structure is wanted: proven, and its bytes sent.
Wanted = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits for one model.

    `cpu_seconds`: processor time for each step (opening, each pass). `memory_bytes`: resident memory. `parameters`
    (None: no limit): checked if the library can count them without building the model. `trained_parameters`: the same
    for the passes with gradients, which cost several times as much. `patience`: a step ends after this many times
    `cpu_seconds` of wall time, for models that sleep.
    """

    cpu_seconds: float = 120.0
    memory_bytes: int = 8 << 30
    parameters: int | None = 200_000_000
    trained_parameters: int | None = 60_000_000
    patience: float = 8.0

    def too_many_to_train(self, parameters: int) -> str:
        """Returns why a model of so many parameters is not captured with gradients, or ""."""
        most = self.trained_parameters
        if most is None or parameters <= most:
            return ""
        return f"{parameters / 1e6:,.0f} million parameters, {most / 1e6:,.0f} are allowed with gradients"


class WorkerDied(Exception):
    """The worker process died. The message says why, as the reason of the step it was running.

    `killed`: by SIGTERM or SIGKILL, as the processes of a node that shuts down are.
    """

    def __init__(self, message: str, killed: bool = False) -> None:
        super().__init__(message)
        self.killed = killed


class CaptureClient:
    """Captures with one worker, started on demand and replaced when it dies. Not thread-safe."""

    def __init__(self, tensors: Path, limits: ModelLimits) -> None:
        self._limits = limits
        # One thread: as many models at a time as the user asked for, and sums that never depend on the machine.
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        variables = {**os.environ, **threads, "PYTHONUNBUFFERED": "1"}
        start = WorkerStart("mindgap_campaign.catalogue.worker:capture_service", variables, forks=True)
        self._client = WorkerClient(start, {"tensors": str(tensors)}, RequestLimits(_START_S, limits.memory_bytes))
        self._source = ""

    def expand(self, pattern: str) -> list[str]:
        """Returns the sources that match a pattern. Raises `WorkerDied`, or `LookupError` if the pattern is wrong."""
        header = self._ask({"kind": "list", "source": pattern}, _LISTING).header
        if header["kind"] != "listed":
            raise LookupError(header["reason"])
        return list(header["sources"])

    def open(self, source: str) -> Mapping[str, Any]:
        """Returns the answer to `open`, of kind `opened`, `left_out` or `failed`. Raises `WorkerDied`."""
        worker = self._client.process
        if worker is not None and worker.memory_bytes() > _RECYCLE_BYTES:
            self.close()
        self._source = ""
        most = self._limits.parameters
        header = self._ask({"kind": "open", "key": source, "source": source, "parameters": most}).header
        self._source = source if header["kind"] == "opened" and not header.get("spoiled") else ""
        return header

    def capture(self, source: str, index: int, name: str, wanted: Wanted) -> tuple[Mapping[str, Any], bytes]:
        """Returns the answer to `capture`, of kind `captured` or `failed`, and the graph's bytes if they were wanted.

        Raises `WorkerDied`. A worker that dies is replaced for the next pass. This pass is repeated once if the worker
        had done other work before, which may have damaged it.
        """
        worker = self._client.process
        aged = worker is not None and worker.jobs > 1
        try:
            return self._captured(source, index, name, wanted)
        except _WorkerCrashed as crash:
            if not aged:
                raise
            _log.info("%s, %s pass: repeated in a new worker: %s", source, name, crash)
        return self._captured(source, index, name, wanted)

    def _captured(self, source: str, index: int, name: str, wanted: Wanted) -> tuple[Mapping[str, Any], bytes]:
        worker = self._client.process
        if self._source != source or worker is None or not worker.alive:
            opened = self.open(source)
            if opened["kind"] != "opened":
                return {**opened, "kind": "failed"}, b""
        frame = self._ask({"kind": "capture", "key": source, "index": index, "pass": name})
        while frame.header["kind"] == "traced":
            frame = self._ask({"kind": "prove", "wanted": wanted(str(frame.header["structure"]))})
        return frame.header, frame.arrays[0].tobytes() if frame.arrays else b""

    def close(self) -> None:
        """Stops the worker."""
        self._client.close()
        self._source = ""

    def _ask(self, header: Mapping[str, Any], times: float = 1.0) -> Frame:
        limits = self._process_limits(times)
        try:
            stage = f"{header['kind']}ing" if header["kind"] != "prove" else "proving"
            frame = self._client.ask(header, (), limits, stage)
        except WorkerFailed as failed:
            self.close()
            tail = shortened_paths(failed.tail).strip().splitlines()
            printed = f" (it printed last: {tail[-1][:200]})" if tail and failed.fault == "crash" else ""
            kind = WorkerDied if failed.fault == "timeout" else _WorkerCrashed
            raise kind(f"{failed.message}{printed}", failed.outside) from None
        if frame.header.get("spoiled"):
            self.close()
        if "error" not in frame.header:
            return frame
        # A catalogue's rows have the error without its place in the model's code.
        return Frame({**frame.header, "reason": frame.header["error"]}, frame.arrays)

    def _process_limits(self, times: float) -> RequestLimits:
        cpu = self._limits.cpu_seconds * times
        return RequestLimits(self._limits.patience * cpu, self._limits.memory_bytes, cpu)


class _WorkerCrashed(WorkerDied):
    """The worker crashed or ran out of memory, which earlier work in it may have caused."""
