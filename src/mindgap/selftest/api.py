"""Runs the whole selftest: subjects in parallel processes, failures through workers."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Final

from mindgap.selftest.failures import try_failures
from mindgap.selftest.report import CaseRow, SelftestReport
from mindgap.selftest.subjects import names
from mindgap.selftest.trial import Trials, try_subject

#: Faults tried in each subject.
_QUICK_FAULTS: Final = 14
_FULL_FAULTS: Final = 60

#: Told after each subject: (done, of how many, its name).
Progress = Callable[[int, int, str], None]


def run(quick: bool = False, seed: int = 0, progress: Progress | None = None) -> SelftestReport:
    """Injects faults into graphs and counts the verdicts. The same seed tries the same cases.

    `quick`: a sample, within a minute on two cores. Subjects whose zoo is not installed are skipped, with the reason.
    """
    started = time.perf_counter()
    subjects = names(quick)
    limit = _QUICK_FAULTS if quick else _FULL_FAULTS
    done: dict[str, Trials] = {}
    # Spawned, not forked: PyTorch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    cores = min(os.cpu_count() or 1, len(subjects))
    with ProcessPoolExecutor(cores, context) as pool, ThreadPoolExecutor(1) as beside:
        waiting = {pool.submit(try_subject, name, seed, limit): name for name in subjects}
        failures = beside.submit(try_failures, quick, seed)
        for future in as_completed(waiting):
            done[waiting[future]] = future.result()
            if progress is not None:
                progress(len(done), len(subjects), waiting[future])
    rows: list[CaseRow] = [row for name in subjects for row in done[name].rows]
    skipped = tuple((name, done[name].skipped) for name in subjects if done[name].skipped)
    return SelftestReport((*rows, *failures.result()), skipped, time.perf_counter() - started)
