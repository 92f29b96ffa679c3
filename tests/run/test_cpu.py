"""Every processor second of a worker is charged to something, also when the worker dies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest
from misbehaving import graph

from mindgap.run.cpu import CpuAccount, seconds_of, waited_seconds
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool

ZOO = "misbehaving:BACKEND"
MakePool = Callable[..., WorkerPool]
#: Less than `misbehaving.Run.burn` takes (children are told in hundredths), and what a busy machine may add to it.
BURNT, SLACK = 0.08, 0.3


def charged(pool: WorkerPool, purpose: str) -> float:
    return sum(seconds for (each, _), seconds in pool.cpu.snapshot().items() if each == purpose)


@pytest.mark.parametrize(("what", "times"), [("burn", 2), ("burn_and_exit", 1), ("burn_in_a_child", 2)])
def test_a_job_is_charged_what_it_took_and_says_so(make_pool: MakePool, what: str, times: int) -> None:
    pool = make_pool()
    started = pool.run(Job(ZOO, graph("add")))
    before, started_for = charged(pool, "running"), charged(pool, "starting")
    outcome = pool.run(Job(ZOO, graph(what), repeat=2, deadline_s=20.0))
    # A crash after another job is tried again, on a fresh worker: twice the burning.
    times *= 2 if what == "burn_and_exit" else 1
    taken = charged(pool, "running") - before
    assert times * BURNT < taken < times * (BURNT + SLACK)
    assert outcome.timings["cpu"] == pytest.approx(taken) and started.timings["cpu"] < BURNT
    assert started_for > 0 and charged(pool, "judging") == 0


def test_what_a_judge_asks_for_is_judging(make_pool: MakePool) -> None:
    pool = make_pool()
    pool.run(Job(ZOO, graph("burn"), repeat=1, purpose="judging"))
    assert charged(pool, "judging") > BURNT and charged(pool, "running") < BURNT


def test_a_worker_that_is_stopped_is_charged_to_its_end(make_pool: MakePool) -> None:
    pool = make_pool()
    outcome = pool.run(Job(ZOO, graph("burn_on"), deadline_s=0.5))
    assert outcome.status == "timeout"
    assert charged(pool, "running") == pytest.approx(outcome.timings["cpu"]) and outcome.timings["cpu"] > 0


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the system does not count how long is waited")
def test_a_process_waits_where_others_have_its_processor() -> None:
    one = min(os.sched_getaffinity(0))
    spinning = f"import os; os.sched_setaffinity(0, [{one}]); print(flush=True)\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", spinning], stdout=subprocess.PIPE) for _ in range(3)]
    asleep = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=-1)
    try:
        for each in (*busy, asleep):
            assert each.stdout is not None and each.stdout.readline()
        before = [waited_seconds(each.pid) for each in (*busy, asleep)]
        time.sleep(1.0)
        waited = [waited_seconds(each.pid) - then for each, then in zip((*busy, asleep), before, strict=True)]
        assert sum(waited[:3]) > 1.0 and waited[3] < 0.1  # of three on one processor, two wait
        assert waited_seconds(2**22 + 1) == 0.0
    finally:
        for each in (*busy, asleep):
            each.kill()
            each.communicate()


def test_sums_are_by_purpose_and_name() -> None:
    account = CpuAccount()
    for seconds in (1.0, 2.0):
        account.add("running", "a", seconds)
    account.add("judging", "a", 4.0)
    assert account.snapshot() == {("running", "a"): 3.0, ("judging", "a"): 4.0}


def test_a_process_that_has_gone_takes_nothing() -> None:
    me = psutil.Process()
    assert 0 < seconds_of(me) <= seconds_of(me)
