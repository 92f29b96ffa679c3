"""Whatever a platform does to its worker costs one outcome and a restart, and nothing else.

Real worker processes with the platforms of `misbehaving.py`.
"""

from __future__ import annotations

import _thread
import json
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
from misbehaving import graph

from mindgap.graph import Graph, Input, MindgapError, Stored
from mindgap.platforms.delegation import Delegation, delegation_of
from mindgap.platforms.protocol import PlatformError
from mindgap.run.cpu import CpuAccount
from mindgap.run.fair_semaphore import FairSemaphore
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap.run.process import WorkerProcess, spawned
from mindgap.run.worker_client import WorkerStart
from mindgap.run.worker_supervisor import START_ATTEMPTS, WorkerLimits, WorkerSupervisor

ZOO = "misbehaving:BACKEND"
MakePool = Callable[..., WorkerPool]


def job(what: str, platform: str = ZOO, seed: int = 0, **settings: object) -> Job:
    return Job(platform, graph(what, seed), deadline_s=settings.pop("deadline_s", 20.0), **settings)  # type: ignore[arg-type]


def well(pool: WorkerPool, platform: str = ZOO) -> bool:
    """The platform still answers, and rightly."""
    outcome = pool.run(job("add", platform, want="outputs"))
    return outcome.status == "ok" and outcome.arrays is not None and 1.0 <= outcome.arrays[0].min() < 2.0


@contextmanager
def supervised(command: Sequence[str]) -> Generator[WorkerSupervisor]:
    """A supervisor whose workers are started by another command line."""

    class CommandLine(WorkerStart):
        def process(self, *_: object) -> WorkerProcess:
            return spawned(command, os.environ)

    limits = WorkerLimits(300.0, 1 << 40, 1 << 40, 1 << 40)
    supervisor = WorkerSupervisor(ZOO, CommandLine(""), {}, limits, FairSemaphore(1), CpuAccount())
    try:
        yield supervisor
    finally:
        supervisor.close()


def gone(pid: int, within_s: float = 5.0) -> bool:
    """The process ends (or is a zombie of somebody else's) within the time."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


# -- what a job can bring back --


def test_digests_outputs_and_traces(calm_pool: WorkerPool) -> None:
    lean = calm_pool.run(job("add"))
    assert lean.status == "ok" and lean.arrays is None and lean.values is None
    whole = calm_pool.run(job("add", want="outputs"))
    assert whole.arrays is not None and whole.outputs == lean.outputs
    traced = calm_pool.run(job("add", want="trace"))
    assert traced.values is not None and traced.values[0] is not None
    assert np.array_equal(traced.values[0], whole.arrays[0])
    assert set(lean.timings) == {"load", "run", "second_run", "total", "cpu"}
    assert lean.fingerprint and lean.fingerprint == whole.fingerprint


def test_small_outputs_come_with_their_digests(calm_pool: WorkerPool) -> None:
    small, large = (calm_pool.run(job("add", attach_up_to=most)) for most in (16, 15))
    assert large.arrays is None and small.arrays is not None and small.outputs == large.outputs
    whole = calm_pool.run(job("add", want="outputs"))
    assert whole.arrays is not None and np.array_equal(small.arrays[0], whole.arrays[0])
    unsteady = calm_pool.run(job("random", attach_up_to=16, repeat=3))
    assert unsteady.status == "nondeterministic" and len(unsteady.repeats) == 3


def test_arrays_sent_with_the_job_replace_what_recipes_make(calm_pool: WorkerPool) -> None:
    sent = np.array([1, 2, 3, np.nan], np.float32)
    outcome = calm_pool.run(job("add", inputs={0: sent}, want="outputs"))
    assert outcome.arrays is not None and np.array_equal(outcome.arrays[0], sent + 1, equal_nan=True)
    assert outcome.outputs[0].digest != calm_pool.run(job("add")).outputs[0].digest


def test_large_arrays_travel_whole(calm_pool: WorkerPool) -> None:
    sent = np.arange(3_000_000, dtype=np.float32)
    outcome = calm_pool.run(Job(ZOO, graph("add", size=sent.size), want="outputs", inputs={0: sent}))
    assert outcome.arrays is not None and np.array_equal(outcome.arrays[0], sent + 1)


def test_a_graph_that_the_worker_forgot_is_sent_again(calm_pool: WorkerPool) -> None:
    first = calm_pool.run(job("add", seed=0))
    for seed in range(1, 300):
        calm_pool.run(job("add", seed=seed))
    assert calm_pool.run(job("add", seed=0)).outputs == first.outputs
    assert calm_pool.starts(ZOO) == 1


def test_a_stored_tensor_that_is_nowhere_is_bad_input(calm_pool: WorkerPool) -> None:
    base = graph("add")
    stored = Graph((Input(base.inputs[0].spec, Stored("0" * 64)),), base.nodes, base.outputs)
    with pytest.raises(MindgapError, match="no tensor 0000"):
        calm_pool.run(Job(ZOO, stored))
    assert well(calm_pool) and calm_pool.starts(ZOO) == 1


@pytest.mark.parametrize(
    ("what", "status", "message"),
    [
        ("unsupported", "unsupported", "no kernel for float32"),
        ("compile_error", "compile_error", "cannot lower buf12"),
        ("raises", "runtime_error", "ValueError: bad tile"),
        ("fell_back", "runtime_error", "fell back: node 3 ran on the CPU"),
        ("sys_exit", "runtime_error", "SystemExit: the library has had enough"),
        ("memory_error", "oom", "MemoryError"),
        ("torch_memory", "oom", "DefaultCPUAllocator"),
        ("overwrite", "runtime_error", "wrote to its input 0"),
        ("two", "runtime_error", "2 outputs where the graph has 1"),
        ("listed", "runtime_error", "a list, not an array"),
        ("texts", "runtime_error", "dtype <U8"),
        ("random", "nondeterministic", "outputs 0"),
    ],
)
def test_what_a_platform_says_is_an_outcome(calm_pool: WorkerPool, what: str, status: str, message: str) -> None:
    outcome = calm_pool.run(job(what))
    assert outcome.status == status and message in outcome.message and outcome.signature
    assert well(calm_pool) and calm_pool.starts(ZOO) == 1


def test_a_typed_refusal_names_the_operator(calm_pool: WorkerPool) -> None:
    assert calm_pool.run(job("unsupported")).op == "zoo.unsupported.default"


def test_signatures_do_not_change_from_process_to_process(make_pool: MakePool) -> None:
    pool, other = make_pool(), make_pool()
    one, two = pool.run(job("raises")), other.run(job("raises"))
    assert one.message != two.message and one.signature == two.signature


def test_every_repetition_is_kept_where_they_differ(calm_pool: WorkerPool) -> None:
    outcome = calm_pool.run(job("random", want="outputs", repeat=3))
    assert [run[0][0] - outcome.repeats[0][0][0] for run in outcome.repeats] == [0, 1, 2]
    assert outcome.arrays is not None and np.array_equal(outcome.arrays[0], outcome.repeats[0][0])


# -- what a job can do to its worker --


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("what", "message", "used"),
    [
        ("segfault", "SIGSEGV while running", True),
        ("segfault", "SIGSEGV while running", False),
        ("load_segfault", "SIGSEGV while loading", False),
        ("exit", "exited with status 3", True),
        ("kill_self", "SIGKILL while running", False),
        ("garbage", "garbage on the channel", True),
        ("close_all", "while running", False),
    ],
)
def test_a_job_that_ends_its_worker_is_one_outcome(make_pool: MakePool, what: str, message: str, used: bool) -> None:
    pool = make_pool()
    if used:
        assert well(pool)
    outcome = pool.run(job(what))
    assert outcome.status == "crash" and message in outcome.message
    # A used worker may have been damaged before, and SIGKILL is no graph's doing: those are tried twice.
    twice = used or what == "kill_self"
    assert ("twice" in outcome.message) == twice
    assert well(pool) and pool.starts(ZOO) == (3 if twice else 2)


def test_what_was_printed_before_a_crash_is_kept(make_pool: MakePool) -> None:
    outcome = make_pool().run(job("abort"))
    assert "terminate called after throwing an instance of 'zoo::Error'" in outcome.message
    assert outcome.signature == (
        "killed by SIGABRT while running | terminate called after throwing an instance of 'zoo::Error'"
    )


def test_a_worker_that_an_earlier_job_damaged_does_not_blame_the_next(make_pool: MakePool) -> None:
    pool = make_pool()
    assert pool.run(job("poison")).status == "ok"
    assert well(pool)
    assert pool.starts(ZOO) == 2


@pytest.mark.parametrize(
    ("leaving", "starts"), [("set_dtype", 1), ("enter_inference", 2), ("enter_transform", 2)]
)  # fmt: skip
def test_a_state_that_a_job_leaves_reaches_no_other(make_pool: MakePool, leaving: str, starts: int) -> None:
    pool = make_pool()
    assert pool.run(job("import_torch")).status == "ok"
    alone = pool.run(job("plain_torch", want="outputs"))
    left = pool.run(job(leaving))
    after = pool.run(job("plain_torch", want="outputs", seed=1)), pool.run(job("plain_torch", want="outputs"))
    assert (left.status, pool.starts(ZOO)) == ("runtime_error" if leaving == "enter_transform" else "ok", starts)
    assert [each.status for each in (alone, *after)] == ["ok"] * 3
    assert after[1].arrays is not None and alone.arrays is not None
    assert np.array_equal(after[1].arrays[0], alone.arrays[0]) and after[1].arrays[0].max() < 2.0


@pytest.mark.parametrize("budget_s", [None, 2.5])
def test_a_deadline_leaves_out_what_other_processes_used_and_a_budget_does_not(
    budget_s: float | None, make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waited:
        """Others have had the processors for two seconds."""

        seconds = 2.0

        def __init__(self, pid: int) -> None:
            assert pid

        def look(self, *, last: bool = False) -> None:
            pass

    monkeypatch.setattr("mindgap.run.process.WaitMeter", Waited)
    pool = make_pool()
    pool.run(job("add"))
    started = time.monotonic()
    until = None if budget_s is None else started + budget_s
    outcome = pool.run(job("hang", deadline_s=1.5, until=until))
    seconds = time.monotonic() - started
    assert outcome.status == "timeout" and "no answer within 1.5 s" in outcome.message
    assert (2.4 < seconds < 3.4) if budget_s else seconds > 3.4


@pytest.mark.parametrize("what", ["hang", "hang_native"])
def test_a_hang_costs_its_deadline_and_says_where(make_pool: MakePool, what: str) -> None:
    pool = make_pool()
    started = time.monotonic()
    outcome = pool.run(job(what, deadline_s=0.6))
    assert outcome.status == "timeout" and time.monotonic() - started < 4
    assert "no answer within 0.6 s" in outcome.message and f"in {what}" in outcome.message
    assert well(pool) and pool.starts(ZOO) == 2


def test_a_worker_that_reads_nothing_cannot_hold_up_its_parent() -> None:
    """Far more than a pipe holds is sent to a process that never reads; it says it is ready and sleeps."""
    code = (
        "import sys, time; from mindgap.run.channel import send_frame\n"
        "from mindgap.platforms.environments.host_worker import PROTOCOL\n"
        "send_frame(1, {'kind': 'ready', 'protocol': PROTOCOL, 'description': {}, 'fingerprint': 'f', 'rss': 0})\n"
        "time.sleep(1000)"
    )
    sent = np.zeros(4_000_000, np.float32)
    with supervised([sys.executable, "-c", code]) as supervisor:
        outcome = supervisor.run(Job(ZOO, graph("add", size=sent.size), deadline_s=0.5, inputs={0: sent}))
    assert outcome.status == "timeout"


def test_memory_past_the_limit_is_oom(make_pool: MakePool) -> None:
    pool = make_pool(memory_limit_bytes=200 << 20)
    outcome = pool.run(job("devour"))
    assert outcome.status == "oom" and "out of memory" in outcome.message
    assert well(pool)


@pytest.mark.nightly
def test_a_worker_whose_parent_cannot_see_its_memory_ends_itself(tmp_path: Path) -> None:
    """The process that the parent sees is a shell, and has no limit of its own."""
    options = json.dumps({"platform": ZOO, "tensors": str(tmp_path)})
    service = "mindgap.run.worker:platform_service"
    worker = (
        f"{sys.executable} -P -m mindgap.run.server {service} --memory-limit {200 << 20} --options '{options}'; exit $?"
    )
    with supervised(["sh", "-c", worker]) as supervisor:
        assert supervisor.run(job("devour")).status == "oom"
        assert supervisor.run(job("add")).status == "ok"


@pytest.mark.nightly
def test_a_leaking_worker_is_replaced(make_pool: MakePool) -> None:
    pool = make_pool(memory_limit_bytes=1 << 30, recycle_bytes=300 << 20)
    outcomes = [pool.run(job("leak", seed=seed)) for seed in range(12)]  # 12 x 2 x 24 MiB
    assert {o.status for o in outcomes} == {"ok"}
    assert 2 <= pool.starts(ZOO) <= 6
    assert all(psutil.Process(pid).memory_info().rss < 400 << 20 for pid in pool.pids().values())


@pytest.mark.parametrize("what", ["shout", "flood"])
def test_printing_does_not_hurt(calm_pool: WorkerPool, what: str) -> None:
    for seed in range(3):
        assert calm_pool.run(job(what, seed=seed)).status == "ok"
    assert well(calm_pool) and calm_pool.starts(ZOO) == 1


def test_reading_standard_input_finds_nothing(calm_pool: WorkerPool) -> None:
    outcome = calm_pool.run(job("read_stdin", want="outputs"))
    assert outcome.arrays is not None and outcome.arrays[0].tolist() == [0.0, 0.0]


def test_a_child_that_keeps_the_pipes_open_is_ended_with_its_parent(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_PIDS", str(tmp_path / "pid"))
    outcome = make_pool().run(job("child", deadline_s=20))
    assert outcome.status == "crash" and "SIGKILL" in outcome.message
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("what", ["fork_and_return", "fork_in_c"])
def test_a_child_that_returns_gives_no_second_answer(make_pool: MakePool, what: str) -> None:
    pool = make_pool()
    for seed in range(3):
        assert pool.run(job(what, seed=seed)).status == "ok"
    assert well(pool) and pool.starts(ZOO) == 1


def test_a_thread_that_goes_on_keeps_no_process_alive(make_pool: MakePool) -> None:
    pool = make_pool()
    assert pool.run(job("keep_alive")).status == "ok"
    pid = pool.pids()[ZOO]
    pool.close()
    assert gone(pid)


def test_a_compiler_that_is_missing_is_named(calm_pool: WorkerPool) -> None:
    outcome = calm_pool.run(job("no_compiler"))
    assert outcome.status == "unsupported" and "zoocc" in outcome.message


@pytest.mark.nightly
def test_a_download_that_fails_or_never_ends_is_one_outcome(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("ZOO_PORT", str(silent.getsockname()[1]))
        outcome = make_pool().run(job("download", deadline_s=1.0))
    assert outcome.status == "timeout" and "while running" in outcome.message and "urlopen" in outcome.message
    outcome = make_pool().run(job("download", deadline_s=20.0))
    assert outcome.status == "runtime_error" and "Connection refused" in outcome.message


# -- delegates --


def test_what_a_delegate_ran_is_a_fact_of_the_outcome(calm_pool: WorkerPool) -> None:
    found = delegation_of(calm_pool.run(job("took_some")).facts)
    assert found == Delegation("the keeper", {"zoo.feed": 2}, {"zoo.sing": 1}, "the visitors", 1)


def test_a_delegate_that_took_nothing_is_no_success(calm_pool: WorkerPool) -> None:
    outcome = calm_pool.run(job("took_nothing"))
    assert outcome.status == "unsupported" and outcome.op == "zoo.took_nothing.default" and not outcome.outputs
    assert "the keeper took none of 1 operators: zoo.took_nothing.default (1)" in outcome.message


# -- workers that do not start --


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("start", "status", "message", "starts"),
    [
        ("raise", "runtime_error", "cannot be opened: RuntimeError: the driver answers 12345", START_ATTEMPTS),
        ("import", "runtime_error", "no module named zookeeper", 1),
        ("die", "crash", "exited with status 9 while starting", START_ATTEMPTS),
        ("exit", "runtime_error", "cannot be opened: SystemExit: licence not found", START_ATTEMPTS),
        ("linger", "runtime_error", "no module named zookeeper", 1),
    ],
)
def test_a_platform_that_cannot_start_is_given_up(
    make_pool: MakePool, start: str, status: str, message: str, starts: int
) -> None:
    name = f"{ZOO}@start={start}"
    pool = make_pool(name, ZOO)
    outcomes = [pool.run(job("add", name, seed=seed)) for seed in range(4)]
    assert {o.status for o in outcomes} == {status} and all(message in o.message for o in outcomes)
    assert pool.starts(name) == starts
    assert message in pool.describe(name)["error"]
    assert well(pool)


@pytest.mark.nightly
def test_what_a_worker_printed_before_it_died_at_start_is_told(make_pool: MakePool) -> None:
    name = f"{ZOO}@start=die"
    assert "the driver is not there" in make_pool(name).run(job("add", name)).message


def test_a_start_that_fails_once_is_forgiven(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_MARK", str(tmp_path / "mark"))
    name = f"{ZOO}@start=once"
    pool = make_pool(name)
    assert well(pool, name) and pool.starts(name) == 2


def test_a_start_that_hangs_is_a_timeout(make_pool: MakePool) -> None:
    name = f"{ZOO}@start=hang"
    pool = make_pool(name, start_s=0.8)
    outcome = pool.run(job("add", name))
    assert outcome.status == "timeout" and "while starting" in outcome.message and pool.starts(name) == 1


def test_a_platform_that_is_not_available_says_so(make_pool: MakePool) -> None:
    pool = make_pool("misbehaving:ABSENT")
    assert "the zoo is closed on Mondays" in pool.run(job("add", "misbehaving:ABSENT")).message
    assert pool.starts("misbehaving:ABSENT") == 1


def test_a_command_that_is_not_there() -> None:
    with supervised(["/nowhere/python"]) as supervisor:
        outcome = supervisor.run(job("add"))
    assert outcome.status == "runtime_error" and "/nowhere/python" in outcome.message


def test_a_command_that_is_no_worker() -> None:
    with supervised(["echo", "hello"]) as supervisor:
        outcome = supervisor.run(job("add"))
    assert outcome.status == "crash" and "garbage on the channel" in outcome.message


# -- wrong use --


def test_wrong_names_are_refused_before_anything_starts(make_pool: MakePool) -> None:
    with pytest.raises(PlatformError):
        make_pool("nowhere/eager")
    with pytest.raises(PlatformError, match="start=sideways"):
        make_pool(f"{ZOO}@start=sideways")
    with pytest.raises(PlatformError, match="PYTHONPATH"):
        make_pool("no_such_module:BACKEND")
    with pytest.raises(MindgapError, match="not in this pool"):
        make_pool().run(job("add", "misbehaving:OTHER"))


def test_a_closed_pool_says_so(make_pool: MakePool) -> None:
    pool = make_pool()
    pool.close()
    with pytest.raises(MindgapError, match="closed"):
        pool.run(job("add"))


# -- several platforms, several threads --


def test_options_reach_the_worker_as_environment(make_pool: MakePool) -> None:
    names = [f"{ZOO}@flag=red", f"{ZOO}@flag=blue"]
    pool = make_pool(*names)
    assert [pool.describe(name)["flag"] for name in names] == ["red", "blue"]
    assert len({pool.run(job("add", name)).fingerprint for name in names}) == 2


@pytest.mark.nightly
def test_platforms_work_side_by_side_and_no_more_than_allowed(make_pool: MakePool) -> None:
    names = [f"{ZOO}@flag={i}" for i in range(3)]

    def naps(busy: int) -> float:
        pool = make_pool(*names, busy=busy)
        assert all(pool.run(job("add", name)).ran for name in names)
        started = time.monotonic()
        with ThreadPoolExecutor(len(names)) as threads:
            outcomes = list(threads.map(pool.run, [job("long_nap", name, repeat=1) for name in names]))
        assert [o.platform for o in outcomes] == names and all(o.ran for o in outcomes)
        return time.monotonic() - started

    assert naps(busy=1) >= 0.9
    assert naps(busy=3) < 0.85


def test_each_thread_gets_the_outcome_of_its_own_job(make_pool: MakePool) -> None:
    names = [ZOO, f"{ZOO}@flag=x"]
    pool = make_pool(*names)
    jobs = [job("nap" if n % 5 == 0 else "add", names[n % 2], seed=n, want="outputs") for n in range(40)]
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(pool.run, jobs))
    singly = [pool.run(j) for j in jobs]
    assert [(o.platform, o.graph, o.outputs) for o in outcomes] == [(o.platform, o.graph, o.outputs) for o in singly]


def test_many_threads_share_a_pool(make_pool: MakePool) -> None:
    pool = make_pool()
    found: list[Outcome] = []
    threads = [
        threading.Thread(target=lambda n=n: found.extend(pool.run(job("add", seed=n)) for _ in range(5)))
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 30 and all(o.ran for o in found)
    assert len({o.outputs[0].digest for o in found}) == 6


def test_a_worker_outlives_the_thread_that_first_needed_it(make_pool: MakePool) -> None:
    pool = make_pool()
    thread = threading.Thread(target=lambda: pool.run(job("add")))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert well(pool) and pool.starts(ZOO) == 1


def test_idle_workers_are_stopped_and_started_again(make_pool: MakePool) -> None:
    pool = make_pool(idle_s=0.2)
    assert well(pool)
    pid = pool.pids()[ZOO]
    assert gone(pid) and pool.pids() == {}
    assert well(pool) and pool.starts(ZOO) == 2


# -- killed at will --


@pytest.mark.nightly
def test_killed_at_random_moments_during_fifty_jobs(make_pool: MakePool) -> None:
    """SIGKILL from outside, eight times: every outcome is the right one, or a crash that was killed twice."""
    pool = make_pool()
    expected = [pool.run(job("nap", seed=n)).outputs for n in range(50)]
    dice = random.Random(20261121)
    done = threading.Event()
    kills: list[int] = []

    def killer() -> None:
        while len(kills) < 8 and not done.wait(dice.uniform(0.05, 0.5)):
            for pid in pool.pids().values():
                try:
                    os.kill(pid, signal.SIGKILL)
                    kills.append(pid)
                except ProcessLookupError:
                    continue

    thread = threading.Thread(target=killer)
    thread.start()
    outcomes = [pool.run(job("nap", seed=n)) for n in range(50)]
    done.set()
    thread.join()
    assert len(kills) >= 4
    lost = [o for o in outcomes if not o.ran]
    assert len(lost) <= len(kills) // 2 and all("SIGKILL" in o.message for o in lost)
    assert all(o.outputs == e for o, e in zip(outcomes, expected, strict=True) if o.ran)
    assert well(pool)


def test_killed_while_idle_costs_nothing(make_pool: MakePool) -> None:
    pool = make_pool()
    assert well(pool)
    os.kill(pool.pids()[ZOO], signal.SIGKILL)
    assert gone(pool.pids()[ZOO])
    assert well(pool)


def test_an_interrupted_wait_leaves_no_answer_behind(make_pool: MakePool) -> None:
    pool = make_pool()
    assert well(pool)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    # A shell starts what runs in its background with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            pool.run(job("long_nap", repeat=20, deadline_s=60.0))
    finally:
        signal.signal(signal.SIGINT, before)
    assert well(pool) and pool.starts(ZOO) == 2


def test_no_worker_and_no_zombie_is_left(make_pool: MakePool) -> None:
    with make_pool() as pool:
        assert well(pool)  # Starts the fork server, if no test before this one has: it outlives its pools.
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    with make_pool(ZOO, f"{ZOO}@flag=x") as pool:
        for what in ("add", "segfault", "exit", "add"):
            pool.run(job(what))
        pool.run(job("add", f"{ZOO}@flag=x"))
        assert len(pool.pids()) == 2
    assert {p.pid for p in psutil.Process().children(recursive=True)} <= before


def test_closing_in_the_middle_of_a_job_does_not_wait_for_it(make_pool: MakePool) -> None:
    pool = make_pool()
    assert well(pool)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(pool.run, job("hang", deadline_s=100))
        time.sleep(0.2)
        started = time.monotonic()
        pool.close()
    assert future.result(timeout=5).status == "crash" and time.monotonic() - started < 5


@pytest.mark.nightly
@pytest.mark.parametrize("what", ["add", "hang", "hang_native"])
def test_no_worker_outlives_its_parent(what: str, tmp_path: Path) -> None:
    """The parent is killed while the worker is idle, or in the middle of a job that holds the interpreter lock."""
    code = f"""
        import threading, time
        from misbehaving import graph
        from mindgap.run.outcome import Job
        from mindgap.run.pool import WorkerPool
        pool = WorkerPool(["{ZOO}"])
        pool.run(Job("{ZOO}", graph("add")))
        threading.Thread(target=pool.run, args=(Job("{ZOO}", graph("{what}")),), daemon=True).start()
        time.sleep(0.3)
        print(pool.pids()["{ZOO}"], flush=True)
        time.sleep(1000)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.kill()
    assert gone(pid)


def test_the_parent_imports_no_framework() -> None:
    code = (
        "import sys, mindgap.run.pool; "
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'onnx', 'onnxruntime', 'openvino', 'jax')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
