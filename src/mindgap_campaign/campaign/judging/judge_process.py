"""Judges rows in separate processes with limits on processor time and memory."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from pydantic import TypeAdapter

from mindgap.graph import Graph, MindgapError, TensorStore, decode
from mindgap.graph.compare.reason import Reason
from mindgap.judge.pipeline.comparison import Execute, no_description
from mindgap.judge.pipeline.outcome_rows import compare_outcomes, row_of
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.name import PlatformName, recorded
from mindgap.platforms.protocol import ACCURACY, PYTORCH_DECOMPOSITIONS
from mindgap.results.rows import Row
from mindgap.results.run_record import Describe
from mindgap.results.settings import RunSettings
from mindgap.run.channel import Frame
from mindgap.run.cpu import CpuAccount
from mindgap.run.identity import remember
from mindgap.run.message import WorkerFailed, graph_bytes, outcome_frame, read_job
from mindgap.run.message_cleaning import shortened_paths
from mindgap.run.outcome import Job, Outcome
from mindgap.run.process import RequestLimits, WorkerProcess
from mindgap.run.worker_client import WorkerClient, WorkerStart
from mindgap_campaign.campaign.cases.case import Case
from mindgap_campaign.campaign.judging.worker import judge_frame
from mindgap_campaign.campaign.plan import Plan

_log = logging.getLogger(__name__)

#: Until a judge that has started must have reported it.
_START_S: Final = 300.0
#: On a machine that others use too, processor seconds pass this much more slowly than seconds.
_SLOW: Final = 20.0
#: Outputs of a case that take at most so many bytes come with their digests. Some thousand outcomes wait at a time.
_ATTACHED_BYTES: Final = 1 << 16
_ROWS: Final = TypeAdapter(Row)


class JudgeFailed(MindgapError):
    """Raised when no judge process can be started."""


class JudgeClosed(HostProblem):
    """Raised for a row of a judge that ends: nothing is known of the row."""


@dataclasses.dataclass(frozen=True, slots=True)
class JudgeLimits:
    """Settings of the rows, limits of time and memory for one row, and the store of large tensors.

    `seconds`: limit for a row whose outputs are judged. `follow_s`: limit for a failure that is followed to its
    operator.
    """

    settings: RunSettings
    seconds: float
    memory_bytes: int
    tensors: TensorStore
    follow_s: float = 60.0

    def limit(self, outcome: Outcome) -> float:
        """Returns the seconds that a row with this outcome may take."""
        return self.seconds if outcome.ran else self.follow_s


def judge_limits(plan: Plan, tensors: TensorStore) -> JudgeLimits:
    """Returns the limits that a plan sets."""
    limits = plan.limits
    settings = plan.run_settings
    return JudgeLimits(settings, limits.judge_s, int(limits.memory_gib * (1 << 30)), tensors, limits.follow_s)


def case_job(plan: Plan, platform: PlatformName, graph: Graph) -> Job:
    """Returns the job that runs a case on a platform for its row."""
    job = Job(platform, graph, repeat=plan.limits.repeat, deadline_s=plan.limits.deadline_s)
    return dataclasses.replace(job, attach_up_to=_ATTACHED_BYTES)


@contextmanager
def judge_processes(
    count: int,
    limits: JudgeLimits,
    execute: Execute,
    describe: Describe = no_description,
    account: CpuAccount | None = None,
) -> Generator[list[JudgeProcess]]:
    """Yields `count` judges, whose processes end with the context. `describe` gives a platform's description;
    `account` is charged for their processor time."""
    with ExitStack() as stack:
        starter = stack.enter_context(ThreadPoolExecutor(1, "mindgap-judge-start"))
        judges = [JudgeProcess(limits, execute, starter, describe, account) for _ in range(count)]
        for judge in judges:
            stack.callback(judge.close)
        yield judges


class JudgeProcess:
    """Supervises one judge process: starts it, restarts it after a crash, enforces limits. Thread-safe: one row at a
    time."""

    def __init__(
        self, limits: JudgeLimits, execute: Execute, starter: ThreadPoolExecutor, describe: Describe = no_description,
        account: CpuAccount | None = None,
    ) -> None:  # fmt: skip
        """`starter`: a thread that outlives this object; a process dies with the thread that started it."""
        self._limits, self._execute, self._describe = limits, execute, describe
        # Rows are judged side by side with what workers run; more threads would only wait for each other.
        variables = {"OMP_NUM_THREADS": "1", **os.environ}
        self._client = WorkerClient(
            WorkerStart("mindgap_campaign.campaign.judging.worker:judge_service", variables, starter=starter),
            {"tensors": str(limits.tensors.path), "memory_bytes": limits.memory_bytes},
            RequestLimits(_START_S, limits.memory_bytes),
            account,
            "judge",
            "judging",
        )
        self._lock = threading.Lock()

    def row(self, case: Case, outcome: Outcome, reference: Outcome) -> Row:
        """Judges one row. A row that exceeds its limits is `unjudged`, or a failure without a culprit.

        The timing `judge` is in processor seconds, of the judge and of the jobs that it requested. Raises `JudgeFailed`
        if no process can be started, and `JudgeClosed` if this object is closed before the row is judged. An error
        inside the process is in the row (`broken`).
        """
        plain = row_of(case.name, outcome)
        with self._lock:
            self._require_open()
            self._client.spent = 0.0
            try:
                judged = self._judged(case, outcome, reference)
            except _OutOfBounds as error:
                judged = _unjudged(plain, outcome, reference, str(error))
            except WorkerFailed as failed:
                detail = f"mindgap failed, twice: the process that judges was {failed.message}"
                judged = dataclasses.replace(
                    plain, detail=detail, broken=f"{detail}\n{shortened_paths(failed.tail)}",
                    reasons=(Reason("worker_killed" if failed.outside else "worker_ended", stage=failed.stage),),
                )  # fmt: skip
            # What its end made of a row that it was at is no judgement.
            self._require_open()
            return dataclasses.replace(judged, timings={**judged.timings, "judge": self._client.spent})

    def _require_open(self) -> None:
        if self._client.closing:
            raise JudgeClosed("the judge of this row has ended")

    @property
    def pid(self) -> int | None:
        """Returns the id of the running process; None if none runs."""
        return self._client.pid

    def close(self) -> None:
        """Ends the process, also in the middle of a row."""
        self._client.shut(self._lock)

    def _judged(self, case: Case, outcome: Outcome, reference: Outcome) -> Row:
        def retry(failed: WorkerFailed, fresh: bool) -> bool:
            # Whoever is killed from outside (or after rows that may have damaged it) gets another try.
            _log.info("judge of %s ended: %s", case.name, failed.message)
            return failed.fault == "crash"

        try:
            return self._client.attempt(
                lambda worker: self._ask(worker, case, outcome, reference), retry, ready=self._ready
            )
        except HostProblem:
            # It waits for the answer of a job that no host gives.
            self._client.close()
            raise
        except WorkerFailed as failed:
            if failed.fault == "timeout":
                raise _OutOfBounds(_too_long(self._limits, outcome)) from None
            if failed.fault == "oom":
                allowed = self._limits.memory_bytes / (1 << 30)
                raise _OutOfBounds(f"judging took more than {allowed:g} GiB of memory") from None
            raise

    def _ready(self) -> WorkerProcess:
        try:
            return self._client.started()
        except WorkerFailed as failed:
            self._require_open()
            if failed.outside:
                return self._client.started()
            raise JudgeFailed(f"no judge can be started: {failed.message} {failed.tail[-500:]}".strip()) from None

    def _ask(self, worker: WorkerProcess, case: Case, outcome: Outcome, reference: Outcome) -> Row:
        """Sends one row to the process and answers its jobs. Raises `WorkerFailed` and `_OutOfBounds`."""
        meter = _Meter(worker, self._limits, self._limits.limit(outcome))
        described = {name: self._facts(name) for name in (outcome.platform, reference.platform)}
        worker.stage = "judging"
        request = judge_frame(case, outcome, reference, self._limits.settings, described)
        frame = worker.ask(*request, meter.limits())
        while frame.header["kind"] == "job":
            answer, arrays = self._run(frame, meter)
            frame = worker.ask(answer, arrays, meter.limits())
        kind = frame.header["kind"]
        if kind == "stopped":
            raise _OutOfBounds(_too_long(self._limits, outcome))
        if kind == "broken":
            row = row_of(case.name, outcome)
            return dataclasses.replace(row, detail="mindgap failed", broken=str(frame.header["traceback"]))
        return _ROWS.validate_python(json.loads(frame.header["row"]))

    def _facts(self, platform: PlatformName) -> dict[str, Any]:
        """Returns the parts of a platform's description that judging uses."""
        description = self._describe(platform)
        return {key: description[key] for key in ("dtypes", PYTORCH_DECOMPOSITIONS, ACCURACY) if key in description}

    def _run(self, frame: Frame, meter: _Meter) -> tuple[dict[str, Any], list[Any]]:
        """Runs a job that the judge requested, and returns the answer."""
        if meter.left() <= 0 or self._client.closing:
            return {"kind": "stop"}, []
        header = frame.header
        data = graph_bytes(frame)
        assert data is not None, "a judge sends every graph along"
        graph = decode(data)
        remember(graph, header["graph"], data)
        job: Job = read_job(frame, recorded(header["platform"]), graph)
        started = time.perf_counter()
        try:
            outcome = self._execute(dataclasses.replace(job, deadline_s=header["deadline_s"], purpose="judging"))
        except HostProblem:
            raise
        except MindgapError as error:
            return {"kind": "refused", "message": str(error)}, []
        # Not the time spent waiting for a turn, where the worker reports how long it took.
        meter.spent += outcome.timings.get("total", time.perf_counter() - started)
        self._client.spent += outcome.timings.get("cpu", 0.0)
        answer, arrays = outcome_frame(outcome, 0)
        return {**answer, "fingerprint": outcome.fingerprint}, arrays


class _OutOfBounds(Exception):
    """Raised when a row exceeds a limit. The message names the limit."""


class _Meter:
    """Measures the time of one row: processor seconds of the judge, and seconds of its jobs (`spent`)."""

    def __init__(self, worker: WorkerProcess, limits: JudgeLimits, seconds: float) -> None:
        self._limits, self._seconds, self._cpu = limits, seconds, worker.cpu_seconds
        self._before = worker.cpu_seconds()
        self._started = time.monotonic()
        self.spent = 0.0

    def left(self) -> float:
        return self._seconds - self.spent - (self._cpu() - self._before)

    def limits(self) -> RequestLimits:
        left = max(self.left(), 0.05)
        return RequestLimits(_SLOW * left, self._limits.memory_bytes, left)


def _too_long(limits: JudgeLimits, outcome: Outcome) -> str:
    what = "judging" if outcome.ran else "following the failure"
    return f"{what} took more than {limits.limit(outcome):g} s"


def _unjudged(plain: Row, outcome: Outcome, reference: Outcome, why: str) -> Row:
    """Returns the row without a judgement: a failure without its operator, or a difference marked `unjudged`."""
    decided = compare_outcomes(plain.model, outcome, reference)
    if decided is not None:
        return dataclasses.replace(decided, detail=f"{why}: the operator at fault was not looked for to the end")
    return dataclasses.replace(plain, unjudged=True, detail=f"it differs; {why}, so nothing is known of it")
