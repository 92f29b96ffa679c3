"""Distributes jobs to a pool of worker processes, one for each platform."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from mindgap.graph import Graph, MindgapError, TensorStore, default_tensor_store
from mindgap.platforms.environments import Host
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment
from mindgap.platforms.protocol import Forkable
from mindgap.platforms.registry import find
from mindgap.run.cpu import CpuAccount
from mindgap.run.fair_semaphore import FairSemaphore
from mindgap.run.outcome import Job, Outcome, Prepared
from mindgap.run.system import memory_bytes, remove_leftovers
from mindgap.run.worker_client import WorkerStart
from mindgap.run.worker_supervisor import WorkerLimits, WorkerSupervisor

if TYPE_CHECKING:
    from typing import Self
import tempfile

_PREFIX: Final = "mindgap-shared-"


def make_shared() -> Path:
    """Makes a directory that only this user can read. Removes directories of processes that have ended.

    Raises `MindgapError` where no temporary directory can be written.
    """
    try:
        parent = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise MindgapError(f"{error.strerror or error}: TMPDIR names another") from None
    remove_leftovers(parent, _PREFIX)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


_SERVICE: Final = "mindgap.run.worker:platform_service"
#: Fewer graphs than a worker keeps, so that none is forgotten before its job comes.
BATCH_SIZE: Final = 128
#: Variables of this process that a worker on a host starts with too: no result depends on them.
_TAKEN_ALONG: Final = ("MINDGAP_LOG", "OMP_WAIT_POLICY")
#: Resident bytes at which a worker empties its caches while one large graph has the machine for itself.
_CACHES_OF_ONE: Final = 384 << 20


class JobRunner(Protocol):
    """Runs jobs on platforms: workers of this machine, or those of a cluster. Thread-safe."""

    #: Processor time of the jobs.
    cpu: CpuAccount

    def run(self, job: Job) -> Outcome:
        """Runs one job and waits for it. Raises `MindgapError` for bad input only."""
        ...

    def run_together(self, jobs: Sequence[Job], deadline_s: float) -> list[Outcome]:
        """Runs jobs for one platform, loaded together if it can. Returns outcomes in their order."""
        ...

    def describe(self, platform: PlatformName) -> Mapping[str, Any]:
        """Returns what the platform reports of itself; `{"error": reason}` if it cannot start."""
        ...


def describe_all(
    pool: JobRunner, platforms: Iterable[PlatformName], jobs: int | None = None
) -> dict[PlatformName, Mapping[str, Any]]:
    """Starts the platforms' workers, `jobs` at a time (None: all), and returns what each reports of itself."""
    names = list(dict.fromkeys(platforms))
    with ThreadPoolExecutor(max(jobs or len(names), 1), thread_name_prefix="mindgap-describe") as threads:
        return dict(zip(names, threads.map(pool.describe, names), strict=True))


def start_error(description: Mapping[str, Any]) -> str:
    """Returns why a platform could not start, in one line; empty if it did. `description`: of a `JobRunner`."""
    return " ".join(str(description["error"]).split()) if set(description) == {"error"} else ""


class WorkerPool:
    """One worker process per platform, started at its first job; at most `busy` of them work at once.

    `memory_limit_bytes` (default: four fifths of the machine's, over `busy`) ends a worker; one that holds more than
    `recycle_bytes` (default: half of that) after a job is replaced, as is one that has been idle for
    `idle_s`. `grows`: a platform is added with its first job. `forks`: workers may come from the fork
    server (`run.forking`), which has imported PyTorch; they share its memory layout and hash seed.
    Thread-safe. Use as a context manager: leaving it ends every worker.
    """

    def __init__(
        self,
        platforms: Sequence[PlatformName],
        *,
        tensors: TensorStore | Path | None = None,
        memory_limit_bytes: int | None = None,
        recycle_bytes: int | None = None,
        busy: int = 2,
        idle_s: float = 300.0,
        start_s: float = 300.0,
        grows: bool = False,
        forks: bool = True,
    ) -> None:
        """Raises `PlatformError` for a platform that is not known, or an option that it does not take, and
        `EnvironmentProblem` for an environment in which no worker can run."""
        memory = memory_limit_bytes or memory_bytes() * 4 // 5 // busy
        recycle = recycle_bytes or memory // 2
        limits = WorkerLimits(start_s, memory, recycle, recycle)
        #: While one graph has the machine for itself. The judge's jobs do not come again, and its memory is short.
        self._all = WorkerLimits(start_s, memory * busy, memory * busy, _CACHES_OF_ONE)
        store = default_tensor_store() if tensors is None else tensors
        store = store if isinstance(store, TensorStore) else TensorStore(store)
        # A worker is killed when the *thread* that started it ends, so all are started from one that stays.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="mindgap-start")
        semaphore = FairSemaphore(busy)
        for platform in platforms:
            # Raises for a wrong name or option before anything is made.
            backend, given = find(platform)
            backend.environment(given)
        self._shared = make_shared()
        self._one = self._limits = limits
        self._store, self._semaphore = store, semaphore
        #: What a host computes takes no core of this machine.
        self._of_hosts: dict[str, FairSemaphore] = {}
        #: Processor time of all workers.
        self.cpu = CpuAccount()
        self._grows, self._forks = grows, forks
        self._growing = threading.Lock()
        self._supervisors: dict[PlatformName, WorkerSupervisor] = {}
        for platform in platforms:
            self._supervisors[platform] = self._supervised(platform)
        self._closed = threading.Event()
        self._keeper = threading.Thread(target=self._keep, args=(idle_s,), name="mindgap-idle", daemon=True)
        self._keeper.start()

    def run(self, job: Job) -> Outcome:
        """Runs one job and waits for it. Raises `MindgapError` for bad input only, such as an unknown platform."""
        return self._supervisor(job.platform).run(job)

    def add(self, platforms: Sequence[PlatformName]) -> None:
        """Adds platforms, and starts their workers without waiting. One that cannot start fails its first job.

        Raises `PlatformError` for a platform that is not known, or an option that it does not take.
        """
        for platform in dict.fromkeys(platforms):
            if platform not in self._supervisors:
                supervisor = self._added(platform)
                threading.Thread(target=supervisor.describe, name="mindgap-warm", daemon=True).start()

    def release(self, platform: PlatformName) -> None:
        """Ends the platform's worker once it is idle. The next job starts another."""
        self._supervisor(platform).release()

    @contextmanager
    def one_at_a_time(self) -> Generator[None]:
        """Within the block one worker may use the memory of all. Ends the workers before, and again after it.

        The caller runs one job at a time, and releases the workers that it is done with.
        """
        self._set_limits(self._all)
        try:
            yield
        finally:
            self._set_limits(self._one)

    def prepare(
        self, platform: PlatformName, graphs: Sequence[Graph], deadline_s: float, until: float | None = None
    ) -> Prepared:
        """Loads the graphs together, if the platform can, for the jobs that follow. Blocks until done.

        `until`: a moment of `time.monotonic` at which it must be over, for any `deadline_s`.
        Any status but `ok`: the worker did not survive, or missed the deadline. A smaller batch may succeed.
        Raises `MindgapError` for bad input only.
        """
        return self._supervisor(platform).prepare([Job(platform, graph) for graph in graphs], deadline_s, until)

    def run_together(self, jobs: Sequence[Job], deadline_s: float) -> list[Outcome]:
        """Loads the graphs of jobs for one platform together, runs the jobs, and returns outcomes in their order.

        If loading ends the worker or exceeds `deadline_s`, the batch is halved until the graph that causes it is
        alone. Raises `MindgapError` for bad input only.
        """
        if len({job.platform for job in jobs}) > 1:
            raise MindgapError("jobs that run together are for one platform")
        return run_batch(self._supervisor(jobs[0].platform), jobs, deadline_s) if jobs else []

    def describe(self, platform: PlatformName) -> Mapping[str, Any]:
        """Returns hardware, versions and settings that the worker found; `{"error": reason}` if it cannot start."""
        return self._supervisor(platform).describe()

    def opened(self, platforms: Sequence[PlatformName]) -> bool:
        """Returns whether the worker of each platform has been ready once, without waiting."""
        return all(self._supervisor(platform).fingerprint for platform in platforms)

    def pids(self) -> dict[PlatformName, int]:
        """Returns the running processes by platform."""
        return {name: pid for name, supervisor in self._supervisors.items() if (pid := supervisor.pid) is not None}

    def starts(self, platform: PlatformName) -> int:
        """Returns how many workers have been started for the platform."""
        return self._supervisor(platform).starts

    def traffic(self, platform: PlatformName) -> tuple[int, int]:
        """Returns the bytes sent to the host of a platform for its jobs, and received from it."""
        return self._supervisor(platform).traffic

    def close(self) -> None:
        """Ends every worker at once; a running job counts as crashed. May be called again."""
        self._closed.set()
        for supervisor in [*self._supervisors.values()]:
            supervisor.close()
        self._starter.shutdown()
        shutil.rmtree(self._shared, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _supervisor(self, platform: PlatformName) -> WorkerSupervisor:
        if self._closed.is_set():
            raise MindgapError("the worker pool is closed")
        try:
            return self._supervisors[platform]
        except KeyError:
            if self._grows:
                return self._added(platform)
            known = ", ".join(self._supervisors) or "none"
            raise MindgapError(f"platform {platform!r} is not in this pool, which has {known}") from None

    def _added(self, platform: PlatformName) -> WorkerSupervisor:
        with self._growing:
            if self._closed.is_set():
                raise MindgapError("the worker pool is closed")
            if platform not in self._supervisors:
                self._supervisors[platform] = self._supervised(platform)
            return self._supervisors[platform]

    def _supervised(self, platform: PlatformName) -> WorkerSupervisor:
        backend, given = find(platform)
        other = backend if isinstance(backend, BackendInEnvironment) else None
        if other is not None and isinstance(other.where, Host):
            return self._on_host(platform, other, other.where)
        # An exporter of another version writes another model.
        shared = self._shared / other.where.name if other else self._shared
        shared.mkdir(exist_ok=True)
        environment = {**os.environ, "MINDGAP_SHARED": str(shared), **backend.environment(given)}
        may_fork = self._forks and isinstance(backend, Forkable) and backend.forkable
        options = {"platform": platform, "tensors": str(self._store.path)} | (other.service_options() if other else {})
        start = WorkerStart(_SERVICE, environment, other.where if other else None, may_fork, self._starter)
        slower = other.where.slower if other else 1.0
        return WorkerSupervisor(platform, start, options, self._limits, self._semaphore, self.cpu, slower)

    def _on_host(self, platform: PlatformName, backend: BackendInEnvironment, host: Host) -> WorkerSupervisor:
        variables = {**backend.environment(platform.backend_options)}
        variables |= {name: os.environ[name] for name in _TAKEN_ALONG if name in os.environ}
        start = WorkerStart(_SERVICE, variables, host)
        options = {"platform": platform, **backend.service_options()}
        busy = self._of_hosts.setdefault(host.name, FairSemaphore(host.workers))
        return WorkerSupervisor(platform, start, options, self._limits, busy, self.cpu, host.slower, self._store)

    def _set_limits(self, limits: WorkerLimits) -> None:
        """Workers that run have other limits, so they end."""
        if self._closed.is_set():
            return
        with self._growing:
            self._limits = limits
            for supervisor in self._supervisors.values():
                supervisor.set_limits(limits)
                supervisor.release()

    def _keep(self, idle_s: float) -> None:
        while not self._closed.wait(min(5.0, idle_s / 4)):
            for supervisor in [*self._supervisors.values()]:
                supervisor.stop_if_idle(idle_s)


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
