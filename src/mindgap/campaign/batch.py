"""Several cases on one platform, compiled together where it can, and what they take of the processor."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from mindgap.campaign.budget import Meter
from mindgap.campaign.supply import Case
from mindgap.graph import Graph
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool


@runtime_checkable
class Preparing(Protocol):
    """A pool that can have several graphs compiled at once, before they run one by one."""

    def prepare(self, platform: str, graphs: Sequence[Graph], deadline_s: float) -> object: ...


def run_batch(pool: WorkerPool, batch: Sequence[tuple[Case, Job]]) -> Iterator[tuple[Case, Outcome]]:
    """Each case with its outcome, whose `timings` say what it took of the processor: `cpu`, in seconds.

    What compiling them together takes is shared evenly. A worker that ends in the middle of a job takes its figure
    along; the time that has passed stands in for it.
    """
    if not batch:
        return
    platform = batch[0][1].platform
    meter = Meter(lambda: pool.pids().get(platform))
    shared = 0.0
    if len(batch) > 1 and isinstance(pool, Preparing):
        deadline_s = sum(job.deadline_s for _, job in batch)
        pool.prepare(platform, [job.graph for _, job in batch], deadline_s)
        shared = meter.read() / len(batch)
    for case, job in batch:
        started = time.monotonic()
        outcome = pool.run(job)
        taken = meter.read()
        if outcome.status in ("crash", "timeout", "oom"):
            taken = max(taken, time.monotonic() - started)
        yield case, dataclasses.replace(outcome, timings={**outcome.timings, "cpu": taken + shared})
