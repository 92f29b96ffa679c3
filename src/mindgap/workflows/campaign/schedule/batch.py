"""Runs several cases on one platform, compiled together where it can, and measures their processor time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Final

from mindgap.run.cpu_meter import CpuMeter
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap.workflows.campaign.cases.case import Case

#: So many cases that are loaded together have one more deadline.
_SHARED: Final = 4


def run_batch(pool: WorkerPool, batch: Sequence[tuple[Case, Job]]) -> Iterator[tuple[Case, Outcome]]:
    """Runs a batch and yields each case with its outcome. The timing `cpu` is in processor seconds.

    The time to load several cases together is divided evenly among them. If the worker ends during the batch, elapsed
    seconds replace its processor seconds.
    """
    if not batch:
        return
    platform = batch[0][1].platform
    meter = CpuMeter(lambda: pool.pids().get(platform))
    started = time.monotonic()
    if len(batch) == 1:
        outcomes = [pool.run(batch[0][1])]
    else:
        # Loaded together they take less than one by one; a hang must not cost the sum of all deadlines.
        deadline_s = batch[0][1].deadline_s * (1 + len(batch) / _SHARED)
        outcomes = pool.run_together([job for _, job in batch], deadline_s)
    ended = any(outcome.status in ("crash", "timeout", "oom") for outcome in outcomes)
    taken = max(meter.read(), time.monotonic() - started if ended else 0.0) / len(batch)
    for (case, _), outcome in zip(batch, outcomes, strict=True):
        yield case, dataclasses.replace(outcome, timings={**outcome.timings, "cpu": taken})
