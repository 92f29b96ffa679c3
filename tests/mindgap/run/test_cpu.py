"""Every processor second of a worker is charged to something, also when the worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest
from misbehaving import graph

from mindgap.run.cpu import CpuAccount, WaitMeter, seconds_of
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


SPINNING = "while True: pass"
#: A process that sleeps on one processor while its three children compute there.
COMPILING = """
import os, subprocess, sys, time
os.sched_setaffinity(0, [{one}])
for _ in range(3):
    subprocess.Popen([sys.executable, "-c", "while True: pass"])
print(flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the system does not count how long is waited")
def test_a_process_is_held_up_where_others_have_the_processors_of_its_children() -> None:
    one = min(os.sched_getaffinity(0))
    compiling = subprocess.Popen(
        [sys.executable, "-c", COMPILING.format(one=one)], stdout=subprocess.PIPE, start_new_session=True
    )
    others: list[subprocess.Popen[bytes]] = []
    try:
        assert compiling.stdout is not None and compiling.stdout.readline()
        alone, left = held_up(compiling.pid)
        # Each of the children waits two thirds of the time, for its siblings.
        assert alone < left + 0.1
        pinned = f"import os; os.sched_setaffinity(0, [{one}])\n{SPINNING}"
        others += [subprocess.Popen([sys.executable, "-c", pinned]) for _ in range(3)]
        shared, left = held_up(compiling.pid)
        assert 0.4 < shared < left + 0.1
    finally:
        os.killpg(compiling.pid, signal.SIGKILL)
        compiling.communicate()
        for each in others:
            each.kill()
            each.communicate()


def held_up(pid: int) -> tuple[float, float]:
    """Returns for how many of about 1.5 s others had the processor of a process, and how many its children left."""
    meter = WaitMeter(pid, every_s=0.3)
    process = psutil.Process(pid)
    started, before = time.monotonic(), seconds_of(process, process.children())
    for _ in range(4):
        time.sleep(0.4)
        meter.look()
    return meter.seconds, time.monotonic() - started - seconds_of(process, process.children()) + before


def test_a_process_that_sleeps_or_is_gone_is_not_held_up() -> None:
    asleep = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=-1)
    try:
        assert asleep.stdout is not None and asleep.stdout.readline()
        assert held_up(asleep.pid)[0] < 0.1
    finally:
        asleep.kill()
        asleep.communicate()
    gone = WaitMeter(asleep.pid, every_s=0.0)
    gone.look()
    assert gone.seconds == 0.0


@pytest.mark.parametrize(("busy", "counted"), [(10.0, 0.5), (0.0, 0.0)])
def test_what_was_waited_counts_to_the_end_and_only_where_others_used_processors(
    busy: float, counted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that waits 0.5 s of a deadline of 0.5 s, beside processes that use processors or none."""
    meter = WaitMeter(os.getpid())
    assert meter._before is not None
    was = meter._before
    waits = {key: seconds + 0.5 for key, seconds in was.waits.items()}
    now = was._replace(time=was.time + 0.5, busy=was.busy + busy, waits=waits)
    monkeypatch.setattr(meter, "_state", lambda: now)
    meter.look()
    assert meter.seconds == 0.0
    meter.look(last=True)
    assert meter.seconds == pytest.approx(counted)


def test_sums_are_by_purpose_and_name() -> None:
    account = CpuAccount()
    for seconds in (1.0, 2.0):
        account.add("running", "a", seconds)
    account.add("judging", "a", 4.0)
    assert account.snapshot() == {("running", "a"): 3.0, ("judging", "a"): 4.0}


def test_a_process_that_has_gone_takes_nothing() -> None:
    me = psutil.Process()
    assert 0 < seconds_of(me) <= seconds_of(me)
