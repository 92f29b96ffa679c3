"""Supervises one worker process: starts it, sends it jobs, restarts it after a crash, enforces deadlines.

When a job ends its worker, the rules are these.
- It timed out: the outcome is `timeout`. A second try would cost the deadline again.
- The worker had run other jobs, which may have damaged it, or it was killed from outside (SIGKILL, SIGTERM), which no
  graph does: the job is tried once more on a fresh worker, whose outcome counts. With `Job.confirmed` false, only if it
  was killed from outside.
- Otherwise the job caused it: `crash` or `oom`, with the worker's stage and its last output.

A worker that does not become ready is started up to `START_ATTEMPTS` times with increasing delays. Then the platform is
given up, and every later job gets the same failure. A start that times out, or that reports a permanent failure, is not
tried again. A start that was killed from outside counts as a quarter of a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.run.channel import Frame
from mindgap.run.cpu import CpuAccount
from mindgap.run.failure_signature import signature
from mindgap.run.fair_semaphore import FairSemaphore
from mindgap.run.identity import bytes_of, digest_of
from mindgap.run.message import PROTOCOL, job_frame, prepare_frame, read_outcome
from mindgap.run.outcome import Job, Outcome, Prepared, Purpose, Status, check_job
from mindgap.run.process import RequestLimits, WorkerFailed, WorkerProcess

START_ATTEMPTS: Final = 3
#: What being killed from outside counts for among them.
_OUTSIDE: Final = 0.25
_BACK_OFF_S: Final = 0.2
#: A request that is sent gets this long, however little time its job has left.
_LEAST_S: Final = 0.05
#: Fewer graphs than a worker keeps, so that none is forgotten before its job comes.
BATCH_SIZE: Final = 128


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """`start_s`: until a worker must be ready. `recycle_bytes`: a worker that holds more after a job is replaced.
    `cache_bytes`: one that holds more empties its caches before that."""

    start_s: float
    memory_bytes: int
    recycle_bytes: int
    cache_bytes: int


class WorkerSupervisor:
    """Runs the jobs of one platform, one at a time, on a worker process that it supervises. Thread-safe."""

    def __init__(
        self,
        platform: str,
        start: Callable[[float], WorkerProcess],
        limits: WorkerLimits,
        busy: FairSemaphore,
        account: CpuAccount,
    ) -> None:
        """`start`: starts a worker, which is to be ready within so many seconds. `busy`: the pool's semaphore, held
        while the worker starts or works. `account`: charged for both."""
        self.platform = platform
        self._start = start
        #: May be replaced: what runs then keeps its own.
        self.limits = limits
        self._busy = busy
        self._account, self._spent = account, 0.0
        self._lock = FairSemaphore()
        self._worker: WorkerProcess | None = None
        self._sent: set[str] = set()
        self._given_up: WorkerFailed | None = None
        #: When the job that runs now must be over.
        self._until: float | None = None
        self._failures = 0.0
        self._closing = False
        self._last_used = time.monotonic()
        self.description: Mapping[str, Any] = {}
        self.fingerprint = ""
        self.starts = 0

    def run(self, job: Job) -> Outcome:
        """Runs the job. `cpu` among the outcome's timings: processor seconds of the worker, without its start.

        Raises `MindgapError` for bad input only.
        """
        check_job(job)
        digest = digest_of(job.graph)
        # A judge asks for one job after the other. Its rows show findings, and it keeps what it knows of few graphs.
        first = job.purpose == "judging"
        with self._lock.turn(first=first), self._busy.turn(first=first):
            self._spent = 0.0
            if job.seconds_left() <= 0:
                return Outcome(self.platform, digest, "timeout", message="no time was left to run it")
            self._until = job.until
            started = time.perf_counter()
            try:
                outcome = self._run(job, digest)
                self._charge(job.purpose)
                # A worker that died sent no timings: count the time until here, its replacement included.
                timings = outcome.timings or {"total": time.perf_counter() - started}
                return replace(outcome, timings={**timings, "cpu": self._spent})
            finally:
                self._until = None
                self._last_used = time.monotonic()

    def prepare(self, jobs: Sequence[Job], deadline_s: float, until: float | None = None) -> Prepared:
        """Loads the graphs of jobs together in the worker. A worker that ends or exceeds the deadline is replaced,
        without another try. `until`: a moment of `time.monotonic` at which it must be over, start of the worker
        included. Raises `MindgapError` for bad input only.
        """
        for job in jobs:
            check_job(job)
        digests = [digest_of(job.graph) for job in jobs]
        first = any(job.purpose == "judging" for job in jobs)
        with self._lock.turn(first=first), self._busy.turn(first=first):
            if until is not None and time.monotonic() >= until:
                return Prepared("timeout", message="no time was left to load them")
            self._until = until
            try:
                worker = self._ready()
                worker.jobs += 1
                worker.stage = f"loading {len(jobs)} graphs together"
                asked = prepare_frame(digests, [bytes_of(job.graph) for job in jobs], [job.inputs for job in jobs])
                left_s = deadline_s if until is None else min(deadline_s, until - time.monotonic())
                frame = worker.ask(*asked, RequestLimits(max(left_s, _LEAST_S), self.limits.memory_bytes))
                return self._read_prepared(worker, frame, digests)
            except WorkerFailed as failed:
                self._drop()
                status: Status = "runtime_error" if isinstance(failed, _CannotOpen) else failed.fault
                return Prepared(status, message=f"{failed.message}\n{failed.tail}".strip())
            finally:
                self._until = None
                self._charge("judging" if first else "running")
                self._last_used = time.monotonic()

    def describe(self) -> Mapping[str, Any]:
        """Returns the platform's description; starts a worker if none has sent it yet. `error` if none can start."""
        with self._lock, self._busy:
            if not self.fingerprint:
                try:
                    self._ready()
                except WorkerFailed as failed:
                    return {"error": failed.message}
            return self.description

    def stop_if_idle(self, seconds: float) -> None:
        """Ends a worker that has been idle for `seconds`. The next job starts another."""
        if self._lock.acquire(timeout=0):
            try:
                if time.monotonic() - self._last_used > seconds:
                    self._drop()
            finally:
                self._lock.release()

    def release(self) -> None:
        """Ends the worker once it is idle. The next job starts another."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """Ends the worker, also during a job, which then counts as crashed. Starts no other."""
        self._closing = True
        while not self._lock.acquire(timeout=0.05):
            worker = self._worker
            if worker is not None:
                worker.kill()
        try:
            self._drop()
        finally:
            self._lock.release()

    @property
    def pid(self) -> int | None:
        """The running process, None without one."""
        worker = self._worker
        return None if worker is None else worker.pid

    def _run(self, job: Job, digest: str) -> Outcome:
        retried = ""
        while True:
            try:
                worker = self._ready()
            except WorkerFailed as failed:
                return self._failed(digest, failed, "")
            fresh = worker.jobs == 0
            worker.jobs += 1
            try:
                return self._ask(worker, job, digest)
            except WorkerFailed as failed:
                self._drop(job.purpose)
                doubtful = failed.fault != "timeout" and (failed.outside or not fresh)
                if retried or not doubtful or not (job.confirmed or failed.outside) or self._closing:
                    return self._failed(digest, failed, retried)
                retried = " (twice: the second time on a fresh worker)"

    def _ask(self, worker: WorkerProcess, job: Job, digest: str) -> Outcome:
        """Sends the job once. Raises `WorkerFailed`, and `MindgapError` for bad input."""
        limits = RequestLimits(max(job.seconds_left(), _LEAST_S), self.limits.memory_bytes)
        worker.stage = "running"
        data = None if digest in self._sent else bytes_of(job.graph)
        frame = worker.ask(*job_frame(job, digest, data), limits)
        if frame.header.get("kind") == "need" and data is None:
            worker.stage = "running"
            frame = worker.ask(*job_frame(job, digest, bytes_of(job.graph)), limits)
        self._sent.add(digest)
        return self._read(worker, frame, digest)

    def _read_prepared(self, worker: WorkerProcess, frame: Frame, digests: Sequence[str]) -> Prepared:
        if frame.header.get("kind") == "refused":
            raise MindgapError(str(frame.header.get("message")))
        if frame.header.get("kind") != "prepared":
            raise _nonsense(worker, f"an answer that says {frame.header.get('kind')!r}")
        self._sent.update(digests)
        return Prepared("ok", int(frame.header["held"]), str(frame.header["message"]))

    def _read(self, worker: WorkerProcess, frame: Frame, digest: str) -> Outcome:
        if frame.header.get("kind") == "refused":
            raise MindgapError(str(frame.header.get("message")))
        try:
            if frame.header["kind"] != "outcome":
                raise ValueError(frame.header["kind"])
            outcome = read_outcome(frame, self.platform, digest, self.fingerprint)
            rss = int(frame.header["rss"])
        except (KeyError, TypeError, ValueError, StopIteration, RuntimeError) as error:
            raise _nonsense(worker, f"an answer that is no outcome ({error})") from error
        if rss > self.limits.recycle_bytes:
            self._drop()
        return outcome

    def _ready(self) -> WorkerProcess:
        """Returns the running worker, or starts one. Raises `WorkerFailed` if none becomes ready."""
        if self._worker is not None:
            if self._worker.alive:
                return self._worker
            self._drop()
        if self._given_up is not None:
            raise self._given_up
        failed = WorkerFailed("crash", "the pool was closed")
        for attempt in range(START_ATTEMPTS):
            if self._closing:
                break
            if attempt:
                time.sleep(_BACK_OFF_S * 4 ** (attempt - 1))
            try:
                return self._start_one()
            except WorkerFailed as error:
                self._drop("starting")
                failed = error
                self._failures += _OUTSIDE if failed.outside else 1
                if self._until is not None and time.monotonic() >= self._until:
                    # It was the job that had no time: the next may start a worker.
                    break
                permanent = failed.fault == "timeout" or (isinstance(failed, _CannotOpen) and failed.permanent)
                if permanent or self._failures >= START_ATTEMPTS:
                    self._given_up = failed
                    break
        raise failed

    def _start_one(self) -> WorkerProcess:
        self.starts += 1
        until = time.monotonic() + self.limits.start_s
        until = until if self._until is None else min(until, self._until)
        try:
            worker = self._worker = self._start(until - time.monotonic())
        except OSError as error:
            raise _CannotOpen(f"the worker cannot be started: {error}", permanent=True) from error
        frame = worker.listen(RequestLimits(max(until - time.monotonic(), _LEAST_S), self.limits.memory_bytes))
        header = frame.header
        if header.get("kind") == "failed":
            raise _CannotOpen(str(header.get("message")), permanent=bool(header.get("permanent")))
        if header.get("kind") != "ready" or header.get("protocol") != PROTOCOL:
            raise _CannotOpen("the worker speaks another version of the protocol than this mindgap", permanent=True)
        self.description = dict(header["description"])
        self.fingerprint = str(header["fingerprint"])
        self._failures = 0.0
        self._charge("starting")
        return worker

    def _charge(self, purpose: Purpose) -> None:
        """Charges the worker's processor time since the last charge."""
        if self._worker is not None:
            self._charge_for(self._worker, purpose)

    def _charge_for(self, worker: WorkerProcess, purpose: Purpose) -> None:
        seconds = worker.spent()
        self._account.add(purpose, self.platform, seconds)
        self._spent += seconds if purpose != "starting" else 0.0

    def _drop(self, purpose: Purpose = "running") -> None:
        """Ends the worker. `purpose`: what its last processor time was for."""
        worker, self._worker = self._worker, None
        self._sent.clear()
        if worker is not None:
            worker.stop()
            self._charge_for(worker, purpose)

    def _failed(self, digest: str, failed: WorkerFailed, retried: str) -> Outcome:
        status: Status = "runtime_error" if isinstance(failed, _CannotOpen) else failed.fault
        first = failed.message + retried
        message = f"{first}\n{failed.tail}" if failed.tail else first
        told = signature("\n".join([failed.message, *_last_words(failed.tail)]))
        return Outcome(self.platform, digest, status, message=message, signature=told, fingerprint=self.fingerprint)


def run_batch(supervisor: WorkerSupervisor, jobs: Sequence[Job], deadline_s: float) -> list[Outcome]:
    """Runs jobs after loading their graphs together, at most `BATCH_SIZE`. If that fails, each half separately."""
    if len(jobs) > BATCH_SIZE:
        return run_batch(supervisor, jobs[:BATCH_SIZE], deadline_s) + run_batch(
            supervisor, jobs[BATCH_SIZE:], deadline_s
        )
    if len(jobs) > 1 and supervisor.prepare(jobs, deadline_s).status != "ok":
        middle = len(jobs) // 2
        return run_batch(supervisor, jobs[:middle], deadline_s) + run_batch(supervisor, jobs[middle:], deadline_s)
    outcomes: list[Outcome] = []
    for number, job in enumerate(jobs, start=1):
        outcomes.append(supervisor.run(job))
        if outcomes[-1].status in ("crash", "timeout", "oom") and number < len(jobs):
            # What was loaded for the others went with the worker.
            return outcomes + run_batch(supervisor, jobs[number:], deadline_s)
    return outcomes


class _CannotOpen(WorkerFailed):
    """The worker started and reports why the platform cannot open. `permanent`: another try cannot succeed."""

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__("crash", message)
        self.permanent = permanent


#: What runtimes print before they abort.
_TELLING: Final = ("terminate called", "what():", "assertion", "check failed", "fatal:")


def _last_words(tail: str) -> list[str]:
    return [line for line in tail.splitlines() if any(words in line.lower() for words in _TELLING)][-2:]


def _nonsense(worker: WorkerProcess, what: str) -> WorkerFailed:
    return WorkerFailed("crash", f"garbage on the channel: {what}", worker.tail)
