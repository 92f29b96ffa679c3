"""Runs the whole selftest: subjects in worker processes, failures through the workers of `diff`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Final

from pydantic import TypeAdapter

from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import WorkerClient, WorkerStart
from mindgap_campaign.selftest.failures import try_failures
from mindgap_campaign.selftest.report import CaseRow, SelftestReport, Trials
from mindgap_campaign.selftest.subjects import names

#: Faults tried in each subject.
_QUICK_FAULTS: Final = 14
_FULL_FAULTS: Final = 60
#: Seconds until a worker has started, and seconds for one subject.
_START_S: Final = 300.0
_SUBJECT_S: Final = 3600.0
#: Tries the faults of one subject at a time.
SERVICE: Final = "mindgap_campaign.selftest.trial:trial_service"
_TRIALS: Final = TypeAdapter(Trials)

#: Called after each subject: (done, of how many, its name).
Progress = Callable[[int, int, str], None]


def run(quick: bool = False, seed: int = 0, progress: Progress | None = None) -> SelftestReport:
    """Injects faults into graphs and counts the verdicts. The same seed tries the same cases.

    `quick`: a sample, within a minute on two cores. Subjects whose zoo is not installed are skipped, with the reason.
    Raises `WorkerFailed` if a worker process dies: no fault that it injects may end it.
    """
    started = time.perf_counter()
    subjects = names(quick)
    limit = _QUICK_FAULTS if quick else _FULL_FAULTS
    done: dict[str, Trials] = {}
    with ExitStack() as stack:
        free = SimpleQueue[WorkerClient]()
        cores = min(os.cpu_count() or 1, len(subjects))
        for _ in range(cores):
            client = WorkerClient(WorkerStart(SERVICE, forks=True), {}, RequestLimits(_START_S))
            stack.callback(client.close)
            free.put(client)

        def tried(subject: str) -> Trials:
            client = free.get()
            try:
                request = {"kind": "try", "subject": subject, "seed": seed, "limit": limit}
                return _TRIALS.validate_python(client.ask(request, (), RequestLimits(_SUBJECT_S)).header)
            finally:
                free.put(client)

        # The processes die with the threads that started them: these live until all subjects are done.
        pool = stack.enter_context(ThreadPoolExecutor(cores))
        thread = stack.enter_context(ThreadPoolExecutor(1))
        waiting = {pool.submit(tried, name): name for name in subjects}
        failures = thread.submit(try_failures, quick, seed)
        for future in as_completed(waiting):
            done[waiting[future]] = future.result()
            if progress is not None:
                progress(len(done), len(subjects), waiting[future])
    rows: list[CaseRow] = [row for name in subjects for row in done[name].rows]
    skipped = tuple((name, done[name].skipped) for name in subjects if done[name].skipped)
    return SelftestReport((*rows, *failures.result()), skipped, time.perf_counter() - started)
