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

Of a worker on a host, a lost connection is no outcome. The host is waited for, and the job is sent again, once. Where
that does not help either, `HostProblem` is raised: nothing is known of the platform. The next job tries again. Where
the machine there was started anew after both losses, the graph takes it down: `crash`.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

import numpy as np

from mindgap.graph import Graph, MindgapError, TensorStore, stored_keys
from mindgap.graph.compare.reason import Reason
from mindgap.platforms.environments import Host, HostProblem
from mindgap.platforms.environments.host_connection import HostLink
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import PlatformError
from mindgap.run.channel import Frame
from mindgap.run.cpu import CpuAccount
from mindgap.run.failure_signature import last_words, signature
from mindgap.run.fair_semaphore import FairSemaphore
from mindgap.run.host_process import HostProcess
from mindgap.run.identity import bytes_of, digest_of
from mindgap.run.message import WorkerFailed, job_frame, prepare_frame, read_outcome
from mindgap.run.message_cleaning import shortened_paths
from mindgap.run.outcome import Job, Outcome, Prepared, Purpose, Status, check_job
from mindgap.run.process import RequestLimits, WorkerProcess
from mindgap.run.worker_client import LEAST_S, CannotOpen, Retry, WorkerClient, WorkerStart, if_doubtful

T = TypeVar("T")

START_ATTEMPTS: Final = 3
#: What being killed from outside counts for among them.
_OUTSIDE: Final = 0.25
_BACK_OFF_S: Final = 0.2
#: A host that was not reached is not tried again for so long.
_HOST_PAUSE_S: Final = 5.0


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
        platform: PlatformName,
        start: WorkerStart,
        options: Mapping[str, Any],
        limits: WorkerLimits,
        busy: FairSemaphore,
        account: CpuAccount,
        slower: float = 1.0,
        tensors: TensorStore | None = None,
    ) -> None:
        """`options`: of the platform's service. `busy`: the pool's semaphore, held while the worker starts or works.
        `account`: charged for both. `slower`: so many times each deadline is allowed, for an emulated processor.
        `tensors`: what a host is sent of, where it asks."""
        self._tensors = tensors
        self._host = start.where if isinstance(start.where, Host) else None
        #: The last time that the host was not reached, and why.
        self._unreached: tuple[float, WorkerFailed] | None = None
        self._links: list[HostLink] = []
        self.platform = platform
        self._slower = slower
        self._client = WorkerClient(start, options, RequestLimits(limits.start_s), account, platform)
        self.set_limits(limits)
        self._busy = busy
        self._lock = FairSemaphore()
        #: The graphs that the latest process was sent.
        self._sent: tuple[WorkerProcess | None, set[str]] = None, set()
        self._given_up: WorkerFailed | None = None
        #: When the job that runs now must be over.
        self._until: float | None = None
        self._failures = 0.0
        self._last_used = time.monotonic()
        self.starts = 0

    def run(self, job: Job) -> Outcome:
        """Runs the job. `cpu` among the outcome's timings: processor seconds of the worker, without its start.

        Raises `MindgapError` for bad input only, and `HostProblem`.
        """
        check_job(job)
        job = replace(job, deadline_s=self._slower * job.deadline_s)
        digest = digest_of(job.graph)
        # A judge asks for one job after the other. Its rows show findings, and it keeps what it knows of few graphs.
        first = job.purpose == "judging"
        with self._lock.turn(first=first), self._busy.turn(first=first):
            self._client.spent = 0.0
            if job.seconds_left() <= 0:
                return Outcome(self.platform, digest, "timeout", message="no time was left to run it")
            self._until = job.until
            started = time.perf_counter()
            try:
                outcome = self._run(job, digest)
                # A worker that died sent no timings: count the time until here, its replacement included.
                timings = outcome.timings or {"total": time.perf_counter() - started}
                return replace(outcome, timings={**timings, "cpu": self._client.spent})
            finally:
                self._until = None
                self._last_used = time.monotonic()

    def prepare(self, jobs: Sequence[Job], deadline_s: float, until: float | None = None) -> Prepared:
        """Loads the graphs of jobs together in the worker. A worker that ends or exceeds the deadline is replaced,
        without another try. `until`: a moment of `time.monotonic` at which it must be over, start of the worker
        included. Raises `MindgapError` for bad input only, and `HostProblem`.
        """
        for job in jobs:
            check_job(job)
        deadline_s *= self._slower
        digests = [digest_of(job.graph) for job in jobs]
        first = any(job.purpose == "judging" for job in jobs)
        with self._lock.turn(first=first), self._busy.turn(first=first):
            if until is not None and time.monotonic() >= until:
                return Prepared("timeout", message="no time was left to load them")
            self._until = until

            def loaded(worker: WorkerProcess) -> Prepared:
                worker.stage = f"loading {len(jobs)} graphs together"
                request = prepare_frame(digests, [bytes_of(job.graph) for job in jobs], [job.inputs for job in jobs])
                left_s = deadline_s if until is None else min(deadline_s, until - time.monotonic())
                limits = RequestLimits(max(left_s, LEAST_S), self.limits.memory_bytes, until=until)
                frame = worker.ask(*request, limits)
                if frame.header.get("kind") == "need":
                    self._send_tensors(worker, frame, [job.graph for job in jobs], until)
                    frame = worker.ask(*request, limits)
                return self._read_prepared(worker, frame, digests)

            try:
                return self._attempt(loaded, lambda failed, _: failed.lost, "judging" if first else "running")
            except WorkerFailed as failed:
                self._refuse_wrong_use(failed)
                status: Status = "runtime_error" if isinstance(failed, CannotOpen) else failed.fault
                return Prepared(status, message=shortened_paths(f"{self._message(failed)}\n{failed.tail}".strip()))
            finally:
                self._until = None
                self._last_used = time.monotonic()

    def describe(self) -> Mapping[str, Any]:
        """Returns the platform's description; starts a worker if none has sent it yet. `error` if none can start."""
        with self._lock, self._busy:
            if not self.fingerprint:
                try:
                    self._ready()
                except WorkerFailed as failed:
                    return {"error": self._message(failed)}
            return self.description

    def stop_if_idle(self, seconds: float) -> None:
        """Ends a worker that has been idle for `seconds`. The next job starts another."""
        if self._lock.acquire(timeout=0):
            try:
                if time.monotonic() - self._last_used > seconds:
                    self._client.close()
            finally:
                self._lock.release()

    def release(self) -> None:
        """Ends the worker once it is idle. The next job starts another."""
        with self._lock:
            self._client.close()

    def close(self) -> None:
        """Ends the worker, also during a job, which then counts as crashed. Starts no other."""
        self._client.shut(self._lock)

    def set_limits(self, limits: WorkerLimits) -> None:
        """Sets the limits of workers and jobs that start from now on."""
        self.limits = limits
        self._client.limits = RequestLimits(self._slower * limits.start_s, limits.memory_bytes)
        self._client.options["recycle"] = limits.cache_bytes

    @property
    def description(self) -> Mapping[str, Any]:
        """The platform's description by the latest worker that was ready."""
        return self._client.about.get("description", {})

    @property
    def fingerprint(self) -> str:
        return self._client.about.get("fingerprint", "")

    @property
    def traffic(self) -> tuple[int, int]:
        """The bytes sent to a host and received from it, so far, without its greetings and orders."""
        return sum(link.sent for link in self._links), sum(link.received for link in self._links)

    @property
    def pid(self) -> int | None:
        """The running process, None without one."""
        return self._client.pid

    def _run(self, job: Job, digest: str) -> Outcome:
        tries = 0

        def asked(worker: WorkerProcess) -> Outcome:
            nonlocal tries
            tries += 1
            return self._ask(worker, job, digest)

        def retry(failed: WorkerFailed, fresh: bool) -> bool:
            return if_doubtful(failed, fresh) and (job.confirmed or failed.outside or failed.lost)

        try:
            return self._attempt(asked, retry, job.purpose)
        except WorkerFailed as failed:
            self._refuse_wrong_use(failed)
            return self._failed(digest, failed, " (twice: the second time on a fresh worker)" if tries > 1 else "")

    def _attempt(self, work: Callable[[WorkerProcess], T], retry: Retry, purpose: Purpose) -> T:
        """As `WorkerClient.attempt`. Raises `HostProblem` where the connection to a host is lost, unless the machine
        there was started anew after both losses of what it computed: a link that is lost is no fault of a graph."""
        boots: list[str] = []

        def noted(worker: WorkerProcess) -> T:
            try:
                return work(worker)
            except WorkerFailed as failed:
                if failed.lost and isinstance(worker, HostProcess):
                    boots.append(str(worker.link.greeting.get("boot", "")) if worker.phase == "computing" else "")
                raise

        try:
            return self._client.attempt(noted, retry, purpose, self._ready)
        except WorkerFailed as failed:
            if not failed.lost:
                raise
            if len(boots) > 1 and "" not in boots and boots[0] != boots[1] and self._boot() not in ("", *boots):
                raise WorkerFailed("crash", "the machine went down while it ran this", failed.tail) from None
            raise HostProblem(failed.message + (" (twice)" if len(boots) > 1 else "")) from None

    def _boot(self) -> str:
        """What the kernel of the host calls its latest start; empty if unknown."""
        with contextlib.suppress(WorkerFailed):
            worker = self._ready()
            return str(worker.link.greeting.get("boot", "")) if isinstance(worker, HostProcess) else ""
        return ""

    def _ask(self, worker: WorkerProcess, job: Job, digest: str) -> Outcome:
        """Sends the job once. Raises `WorkerFailed`, and `MindgapError` for bad input."""
        limits = RequestLimits(max(job.seconds_left(), LEAST_S), self.limits.memory_bytes, until=job.until)
        sent = self._sent_to(worker)
        worker.stage = "running"
        data = None if digest in sent else bytes_of(job.graph)
        frame = worker.ask(*job_frame(job, digest, data), limits)
        if frame.header.get("kind") == "need" and data is None and "tensors" not in frame.header:
            worker.stage = "running"
            frame = worker.ask(*job_frame(job, digest, bytes_of(job.graph)), limits)
        sent.add(digest)
        if frame.header.get("kind") == "need" and self._host is not None:
            self._send_tensors(worker, frame, [job.graph], job.until)
            worker.stage = "running"
            frame = worker.ask(*job_frame(job, digest, None), limits)
        return self._read(worker, frame, digest)

    def _send_tensors(self, worker: WorkerProcess, frame: Frame, graphs: Sequence[Graph], until: float | None) -> None:
        """Sends the tensors of graphs that a host lacks, and no other. Raises `WorkerFailed`, and `HostProblem` where
        it cannot keep them."""
        wanted: Any = frame.header.get("tensors")
        if self._host is None or self._tensors is None or not isinstance(wanted, list):
            raise _invalid_answer(worker, "it asks for tensors, and names none")
        keys = {key for graph in graphs for key in stored_keys(graph)}
        for key in cast("list[Any]", wanted):
            if not isinstance(key, str) or key not in keys:
                raise _invalid_answer(worker, "it asks for a tensor that no graph of the job has")
            data = np.memmap(self._tensors.file(key), np.uint8, "r")
            worker.stage = "getting the tensors"
            limits = RequestLimits(self.limits.start_s, until=until)
            answer = worker.ask({"kind": "tensor", "key": key}, [data], limits).header
            if answer.get("kind") != "kept":
                raise HostProblem(f"host {self._host.name}: {answer.get('message')}")

    def _sent_to(self, worker: WorkerProcess) -> set[str]:
        """The digests of the graphs that were sent to a worker."""
        if worker is not self._sent[0]:
            self._sent = worker, set()
        return self._sent[1]

    def _read_prepared(self, worker: WorkerProcess, frame: Frame, digests: Sequence[str]) -> Prepared:
        if frame.header.get("kind") == "refused":
            raise MindgapError(str(frame.header.get("message")))
        if frame.header.get("kind") != "prepared":
            raise _invalid_answer(worker, f"an answer that says {frame.header.get('kind')!r}")
        held = frame.header.get("held")
        if not isinstance(held, int):
            raise _invalid_answer(worker, "it does not say what it holds")
        if frame.header.get("spoiled"):
            self._client.close()
            return Prepared("ok", 0, str(frame.header.get("message", "")))
        self._sent_to(worker).update(digests)
        return Prepared("ok", held, str(frame.header.get("message", "")))

    def _read(self, worker: WorkerProcess, frame: Frame, digest: str) -> Outcome:
        if frame.header.get("kind") == "refused":
            raise MindgapError(str(frame.header.get("message")))
        try:
            if frame.header["kind"] != "outcome":
                raise ValueError(frame.header["kind"])
            outcome = read_outcome(frame, self.platform, digest, self.fingerprint)
            rss = int(frame.header["rss"])
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration, RuntimeError) as error:
            raise _invalid_answer(worker, f"an answer that is no outcome ({error})") from error
        if rss > self.limits.recycle_bytes or frame.header.get("spoiled"):
            self._client.close()
        return outcome

    def _ready(self) -> WorkerProcess:
        """Returns the running worker, or starts one. Raises `WorkerFailed` if none becomes ready."""
        if self._client.process is not None and self._client.process.alive:
            return self._client.process
        if self._given_up is not None:
            raise self._given_up
        failed = WorkerFailed("crash", "the pool was closed")
        for attempt in range(START_ATTEMPTS):
            if self._client.closing:
                break
            if attempt:
                time.sleep(_BACK_OFF_S * 4 ** (attempt - 1))
            try:
                worker = self._started()
                self._failures = 0.0
                return worker
            except WorkerFailed as error:
                failed = error
                if failed.lost:
                    break
                self._failures += _OUTSIDE if failed.outside else 1
                if self._until is not None and time.monotonic() >= self._until:
                    # It was the job that had no time: the next may start a worker.
                    break
                permanent = failed.fault == "timeout" or (isinstance(failed, CannotOpen) and failed.permanent)
                if permanent or self._failures >= START_ATTEMPTS:
                    self._given_up = failed
                    break
        raise failed

    def _started(self) -> WorkerProcess:
        """Starts a worker. A host that was reached before is waited for, for its `wait_s`; one that was
        just not reached is not tried again at once. Raises `WorkerFailed`."""
        if self._unreached is not None and time.monotonic() - self._unreached[0] < _HOST_PAUSE_S:
            raise self._unreached[1]
        wait_s = self._host.wait_s if self._host and self.fingerprint and self._unreached is None else 0.0
        until = min(time.monotonic() + wait_s, math.inf if self._until is None else self._until)
        pause_s = _BACK_OFF_S
        while True:
            self.starts += 1
            try:
                worker = self._client.started(self._until)
            except WorkerFailed as failed:
                if not failed.lost:
                    raise
                if self._client.closing or time.monotonic() + pause_s > until:
                    self._unreached = time.monotonic(), failed
                    raise
                self._client.pause(pause_s)
                pause_s = min(2 * pause_s, _HOST_PAUSE_S)
                continue
            self._unreached = None
            if isinstance(worker, HostProcess):
                self._links.append(worker.link)
            return worker

    def _message(self, failed: WorkerFailed) -> str:
        if isinstance(failed, CannotOpen) and not failed.ours:
            return f"platform {self.platform} cannot be opened: {failed.message}"
        return failed.message

    def _refuse_wrong_use(self, failed: WorkerFailed) -> None:
        """Raises `PlatformError` for an option's value that the runtime does not take, as the worker reports."""
        if isinstance(failed, CannotOpen) and failed.wrong_use:
            raise PlatformError(f"platform {self.platform}: {failed.message}")

    def _failed(self, digest: str, failed: WorkerFailed, retried: str) -> Outcome:
        status: Status = "runtime_error" if isinstance(failed, CannotOpen) else failed.fault
        first = self._message(failed) + retried
        message = shortened_paths(f"{first}\n{failed.tail}" if failed.tail else first)
        cause = signature("\n".join([self._message(failed), *last_words(failed.tail)]))
        ended = "not_opened" if isinstance(failed, CannotOpen) else "worker_ended"
        reason = Reason("worker_killed" if failed.outside else ended, stage=failed.stage)
        return Outcome(
            self.platform, digest, status, message=message, signature=cause, fingerprint=self.fingerprint, reason=reason
        )


def _invalid_answer(worker: WorkerProcess, what: str) -> WorkerFailed:
    return WorkerFailed("crash", f"garbage on the channel: {what}", worker.tail)
