"""Workers that the fork server forks are in nothing worse than those that a command line starts.

Real workers, of the platforms of `misbehaving.py` and of PyTorch's.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from misbehaving import graph

from mindgap.graph import Graph, Input, Node, Ref, TensorSpec, Uniform
from mindgap.run import forking
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no fork server elsewhere")

ZOO = "misbehaving:FORKED"
MakePool = Callable[..., WorkerPool]


@pytest.fixture
def make(make_pool: MakePool) -> MakePool:
    return lambda *platforms, **settings: make_pool(*(platforms or (ZOO,)), **settings)


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What the fork server's client logs."""
    lines: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("mindgap.run.forking")
    handler.emit = lambda record: lines.append(record.getMessage())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(before)


def run(pool: WorkerPool, what: str, platform: str = ZOO, **settings: object) -> Outcome:
    return pool.run(Job(platform, graph(what), **{"deadline_s": 60.0, **settings}))  # type: ignore[arg-type]


def parent_of(pool: WorkerPool, platform: str = ZOO) -> psutil.Process:
    parent = psutil.Process(pool.pids()[platform]).parent()
    assert parent is not None
    return parent


def is_forked(pool: WorkerPool, platform: str = ZOO) -> bool:
    return "mindgap.run.fork_server" in parent_of(pool, platform).cmdline()


def gone(pid: int, within_s: float = 10.0) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.nightly
def test_pools_share_one_server_and_leave_nothing_behind(make_pool: MakePool) -> None:
    with WorkerPool([ZOO]) as pool:
        assert run(pool, "add").status == "ok" and is_forked(pool)
        server = parent_of(pool)
        threads = server.num_threads()
    gc.collect()
    here, there = descriptors(os.getpid()), descriptors(server.pid)
    for _ in range(4):
        with WorkerPool([ZOO, "misbehaving:FORKED@start=ok"]) as pool:
            for platform in (ZOO, "misbehaving:FORKED@start=ok"):
                assert run(pool, "add", platform).status == "ok"
                assert parent_of(pool, platform) == server
    gc.collect()
    # Pools of tests before this one may close theirs meanwhile.
    assert descriptors(os.getpid()) <= here and descriptors(server.pid) == there
    assert server.children() == [] and threads == server.num_threads() == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("segfault", "SIGSEGV while running"),
        ("load_segfault", "SIGSEGV while loading"),
        ("abort", "SIGABRT while running"),
        ("exit", "exited with status 3"),
        ("kill_self", "SIGKILL while running"),
        ("close_all", "while running"),
    ],
)
def test_how_a_worker_ended_is_its_outcome(make: MakePool, what: str, message: str) -> None:
    pool = make()
    outcome = run(pool, what)
    assert outcome.status == "crash" and message in outcome.message
    assert run(pool, "add").status == "ok" and is_forked(pool)


def test_what_was_printed_before_a_crash_is_kept(make: MakePool) -> None:
    assert "terminate called after throwing an instance of 'zoo::Error'" in run(make(), "abort").message


@pytest.mark.parametrize("what", ["hang", "hang_native"])
def test_a_hang_costs_its_deadline_and_says_where(make: MakePool, what: str) -> None:
    pool = make()
    assert run(pool, "add").status == "ok"
    outcome = run(pool, what, deadline_s=0.6)
    assert outcome.status == "timeout" and f"in {what}" in outcome.message


def test_memory_past_the_limit_is_oom(make: MakePool) -> None:
    pool = make(memory_limit_bytes=900 << 20)
    outcome = run(pool, "devour")
    # Its own allocation fails, or the watch over its memory ends it.
    assert outcome.status == "oom" and re.search("out of memory|900 MiB are allowed", outcome.message)
    assert run(pool, "add").status == "ok" and is_forked(pool)


def test_processor_time_is_the_workers_own(make: MakePool) -> None:
    pool = make()
    assert run(pool, "add").timings["cpu"] < 0.1
    assert 0.2 <= run(pool, "burn").timings["cpu"] < 0.6  # 0.1 s in each of two runs
    assert run(pool, "burn_and_exit").timings["cpu"] >= 0.1


@pytest.mark.parametrize("what", ["shout", "flood"])
def test_printing_does_not_break_the_channel(make: MakePool, what: str) -> None:
    pool = make()
    assert run(pool, what).status == run(pool, "add").status == "ok" and pool.starts(ZOO) == 1


def test_what_a_worker_started_ends_with_it(make: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_ZOO_PIDS", str(tmp_path / "pid"))
    outcome = run(make(), "child")
    assert outcome.status == "crash" and "SIGKILL" in outcome.message
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.nightly
@pytest.mark.parametrize("what", ["add", "hang_native"])
def test_nothing_outlives_a_driver_that_is_killed(what: str) -> None:
    code = f"""
        import threading, time
        import psutil
        from misbehaving import graph
        from mindgap.run.outcome import Job
        from mindgap.run.pool import WorkerPool
        pool = WorkerPool(["{ZOO}"])
        pool.run(Job("{ZOO}", graph("add")))
        worker = psutil.Process(pool.pids()["{ZOO}"])
        threading.Thread(target=pool.run, args=(Job("{ZOO}", graph("{what}")),), daemon=True).start()
        time.sleep(0.3)
        print(worker.pid, worker.ppid(), flush=True)
        time.sleep(1000)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        worker, server = map(int, driver.stdout.readline().split())
        assert server != driver.pid and psutil.pid_exists(worker) and psutil.pid_exists(server)
        driver.kill()
    assert gone(worker) and gone(server)


def test_a_driver_that_is_killed_before_the_server_has_imported_leaves_nothing() -> None:
    code = (
        "import time; from mindgap.run import forking; forking.begin();"
        "print(forking._current._process.pid, flush=True); time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        server = int(driver.stdout.readline())
        driver.kill()
    assert gone(server)


def test_a_worker_with_variables_of_its_own_starts_by_its_command_line(make: MakePool, logged: list[str]) -> None:
    platform = f"{ZOO}@flag=up"
    pool = make(ZOO, platform)
    assert run(pool, "add").status == run(pool, "add", platform).status == "ok"
    assert is_forked(pool) and parent_of(pool, platform).pid == os.getpid()
    assert pool.describe(platform)["flag"] == "up"
    assert [line for line in logged if "ZOO_FLAG" in line and "starts by its command line" in line]


def test_a_worker_of_inductor_is_forked_with_its_settings(logged: list[str]) -> None:
    given = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": "/tmp"}
    shown = "import sys; print(sys.modules['torch._inductor.config'].compile_threads)"
    process = forking.forked("timeit", ["-n1", "-r1", "-s", shown, "pass"], given, 60.0)
    assert process is not None and process.reap() == 0 and os.read(process.stdout, 4096).startswith(b"1\n")
    assert forking.forked("timeit", [], {**given, "TORCHINDUCTOR_FREEZING": "1"}, 60.0) is None
    assert "TORCHINDUCTOR_FREEZING" in logged[-1]


def test_other_variables_of_the_driver_make_another_server(make: MakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make()
    assert run(old, "add").status == "ok"
    first = parent_of(old)
    monkeypatch.setenv("ZOO_FLAG", "changed")
    new = make()
    assert new.describe(ZOO)["flag"] == "changed" and is_forked(new) and parent_of(new) != first
    assert run(old, "add").status == "ok" and parent_of(old) == first
    old.close()
    assert gone(first.pid)


@pytest.mark.nightly
def test_variables_that_are_read_later_and_the_directory_reach_the_worker(
    make: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make()
    assert run(pool, "add").status == "ok"
    monkeypatch.setenv("MINDGAP_ZOO", "here")
    monkeypatch.chdir(tmp_path)
    other = make()
    assert run(other, "add").status == "ok" and parent_of(other) == parent_of(pool)
    assert Path(f"/proc/{other.pids()[ZOO]}/cwd").readlink() == tmp_path
    assert run(other, "variable", want="outputs").message == "ValueError: here"


@pytest.mark.nightly
def test_a_lost_server_costs_no_job(make: MakePool, logged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_FLAG", "lost")  # a server of this test's own
    monkeypatch.setattr(forking, "_current", None)
    pool = make()
    assert run(pool, "add").status == "ok" and is_forked(pool)
    worker = pool.pids()[ZOO]
    parent_of(pool).kill()
    assert gone(worker)
    assert run(pool, "add").status == "ok" and parent_of(pool).pid == os.getpid()
    assert [line for line in logged if "the fork server was lost" in line]
    assert run(make(), "add").status == "ok"


def test_a_server_with_two_threads_does_not_fork() -> None:
    code = (
        "import threading; from mindgap.run import fork_server\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "print(fork_server._fork({}, [], None))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'refused': 'the fork server has 2 threads'}"


@pytest.mark.nightly
def test_threads_that_numpy_starts_do_not_keep_the_server_from_forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of several cores, where the user has set no number of threads."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with WorkerPool([ZOO]) as pool, WorkerPool([ZOO], forks=False) as plain:
        assert run(pool, "add").status == "ok" and is_forked(pool)
        square = [run(each, "square", want="outputs") for each in (pool, plain)]
        assert psutil.Process(pool.pids()[ZOO]).num_threads() == psutil.Process(plain.pids()[ZOO]).num_threads()
    assert square[0].outputs == square[1].outputs and square[0].status == "ok"


@pytest.mark.nightly
def test_workers_draw_other_random_numbers(make: MakePool) -> None:
    drawn = [run(make(), "entropy", want="outputs").arrays for _ in range(2)]
    assert drawn[0] is not None and drawn[1] is not None
    assert not np.isin(drawn[0][0], drawn[1][0]).any()


COMPILED = [pytest.param(name, marks=pytest.mark.nightly) for name in ("onnxruntime/cpu", "openvino/cpu")]


def matrices() -> Graph:
    a, b = (TensorSpec.contiguous("float32", shape) for shape in ((64, 300), (300, 200)))
    out = TensorSpec.contiguous("float32", (64, 200))
    nodes = (
        Node("aten.mm.default", (Ref(0), Ref(1)), (), (out,)),
        Node("aten.gelu.default", (Ref(2),), (), (out,)),
    )
    return Graph((Input(a, Uniform(1)), Input(b, Uniform(2))), nodes, (3,))


@pytest.mark.parametrize("platform", ["cpu/eager", pytest.param("cpu/jit", marks=pytest.mark.nightly), *COMPILED])
def test_a_forked_worker_gives_the_bits_and_the_fingerprint_of_another(platform: str) -> None:
    if "/cpu" in platform:
        pytest.importorskip(platform.split("/")[0])
    found: list[Outcome] = []
    for forks in (True, False):
        with WorkerPool([platform], forks=forks) as pool:
            found.append(pool.run(Job(platform, matrices(), deadline_s=120.0)))
            assert found[-1].status == "ok", found[-1].message
            assert is_forked(pool, platform) == forks
            held = {os.readlink(f"/proc/{pool.pids()[platform]}/fd/{fd}").split(":")[0] for fd in (0, 1, 2)}
            assert held == {"/dev/null", "pipe"}
    assert found[0].outputs == found[1].outputs and found[0].fingerprint == found[1].fingerprint


def test_a_forked_worker_has_no_descriptor_that_another_has_not(make: MakePool) -> None:
    forked, plain = make(), make(forks=False)
    assert run(forked, "add").status == run(plain, "add").status == "ok"
    assert is_forked(forked) and not is_forked(plain)
    assert descriptors(forked.pids()[ZOO]) == descriptors(plain.pids()[ZOO])


def test_a_forked_worker_is_in_a_session_of_its_own_and_dies_with_the_server(make: MakePool) -> None:
    pool = make()
    assert run(pool, "add").status == "ok"
    pid = pool.pids()[ZOO]
    assert os.getsid(pid) == os.getpgid(pid) == pid
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")), 16)
    assert ignored & 1 << signal.SIGINT - 1
