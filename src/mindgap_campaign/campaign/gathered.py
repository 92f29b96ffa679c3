"""Runs jobs that wait at the same time together, on platforms that load several graphs faster than one by one.

A compiler that takes seconds for a graph of one operator takes little more for many. While one batch runs, the jobs
that come in wait, and are the next batch.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import Future
from typing import Final

from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool

#: So many jobs that are loaded together have one more deadline.
_SHARED: Final = 8


class GatheredRuns:
    """Runs jobs as `WorkerPool.run` does, those of `platforms` gathered. Thread-safe: each caller waits for its
    jobs."""

    def __init__(self, pool: WorkerPool, platforms: Collection[PlatformName]) -> None:
        self._pool = pool
        self._waiting: dict[PlatformName, list[tuple[Job, Future[Outcome]]]] = {platform: [] for platform in platforms}
        self._turns = {platform: threading.Lock() for platform in platforms}
        self._guard = threading.Lock()

    def run(self, job: Job) -> Outcome:
        """Runs one job and waits for it. Raises `MindgapError` for bad input only."""
        if job.platform not in self._waiting:
            return self._pool.run(job)
        own = Future[Outcome]()
        with self._guard:
            self._waiting[job.platform].append((job, own))
        with self._turns[job.platform]:
            # Whoever had the turn before may have run it.
            if not own.done():
                with self._guard:
                    batch, self._waiting[job.platform] = self._waiting[job.platform], []
                self._run(batch)
        return own.result()

    def _run(self, batch: list[tuple[Job, Future[Outcome]]]) -> None:
        jobs = [job for job, _ in batch]
        deadline_s = jobs[0].deadline_s * (1 + len(jobs) / _SHARED)
        try:
            outcomes = self._pool.run_together(jobs, deadline_s)
        except MindgapError:
            # One of them is bad input: it is the answer to that one only.
            for job, future in batch:
                _answer(future, self._pool, job)
            return
        except BaseException as error:
            for _, future in batch:
                future.set_exception(error)
            raise
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            future.set_result(outcome)


def _answer(future: Future[Outcome], pool: WorkerPool, job: Job) -> None:
    try:
        future.set_result(pool.run(job))
    except BaseException as error:
        future.set_exception(error)
