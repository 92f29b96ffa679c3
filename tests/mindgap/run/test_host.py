"""Workers on a host: one outcome for whatever a connection, the other side or the platform there does.

The host here is a plain command on this machine, with a home of its own. `test_ssh_host.py` has a real sshd.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from misbehaving import graph

from mindgap import __version__
from mindgap.graph import Graph, Input, Node, Ref, Stored, TensorSpec, TensorStore, tensor_key
from mindgap.platforms.environments import Host, HostProblem, find_host, host_worker
from mindgap.platforms.environments.host_connection import (
    HostConnection,
    HostLink,
    Order,
    run_script_there,
    run_there,
    versions_there,
)
from mindgap.platforms.environments.host_worker import GREETING, PROTOCOL, PYTHON
from mindgap.platforms.name import parse
from mindgap.platforms.registry import find
from mindgap.run.cpu import CpuMeter
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool

ZOO = parse("misbehaving:BACKEND@host=edge")
WORKER = f"{sys.executable} -m mindgap worker"
Write = Callable[..., None]


def job(what: str = "add", **settings: object) -> Job:
    return Job(ZOO, graph(what), **{"deadline_s": 20.0, **settings})  # type: ignore[arg-type]


def kill_there(pool: WorkerPool) -> None:
    """Kills what runs there, and waits until the worker itself is gone: it could still answer a job before."""
    there = psutil.Process(pool.pids()[ZOO]).children(recursive=True)
    os.kill(pool.pids()[ZOO], signal.SIGKILL)
    assert there and not psutil.wait_procs(there, timeout=10)[1]


def is_right(outcome: Outcome) -> bool:
    return outcome.status == "ok" and outcome.arrays is not None and 1.0 <= outcome.arrays[0].min() < 2.0


def with_tensor(store: TensorStore, values: np.ndarray) -> Graph:
    spec = TensorSpec.contiguous("float32", values.shape)
    given = Input(spec, Stored(store.put(values)), "parameter")
    return Graph((given,), (Node("zoo.add.default", (Ref(0),), (), (spec,)),), (1,))


# -- what runs there --


def test_a_job_runs_there_and_tensors_travel_once(write_host: Write, tmp_path: Path) -> None:
    store = TensorStore(tmp_path / "here")
    values = np.random.default_rng(0).random(100_000, np.float32)
    asked = Job(ZOO, with_tensor(store, values), attach_up_to=0)
    with WorkerPool([ZOO], tensors=store) as pool:
        first, sent = pool.run(asked), pool.traffic(ZOO)
        second, more = pool.run(asked), pool.traffic(ZOO)
        described = pool.describe(ZOO)
    assert first.status == second.status == "ok" and first.outputs == second.outputs, first.message
    assert sent[0] > values.nbytes and more[0] - sent[0] < 2000
    assert tensor_key(values) in TensorStore(tmp_path / "there/tensors")
    assert described["host"]["python"] == ".".join(map(str, sys.version_info[:3])) and described["host"]["mindgap"]
    with WorkerPool([ZOO], tensors=store) as pool:
        assert pool.run(asked).outputs == first.outputs
        assert pool.traffic(ZOO)[0] < 2000, "it was kept there"


def test_what_a_platform_does_there_is_an_outcome_as_here(write_host: Write) -> None:
    with WorkerPool([ZOO]) as pool:
        crash, hang = pool.run(job("segfault")), pool.run(job("hang", deadline_s=0.5))
    assert (crash.status, hang.status) == ("crash", "timeout")
    assert "killed by SIGSEGV while running" in crash.message
    assert "no answer within 0.5 s" in hang.message and "in hang" in hang.message, "with the stack there"


def test_a_lost_connection_is_made_again_and_the_job_is_sent_again(write_host: Write) -> None:
    with WorkerPool([ZOO]) as pool:
        assert is_right(pool.run(job(want="outputs")))
        threading.Timer(0.3, os.kill, (pool.pids()[ZOO], signal.SIGKILL)).start()
        assert pool.run(job("long_nap", repeat=4)).status == "ok"
        assert pool.starts(ZOO) == 2


def test_a_host_that_is_gone_is_no_failure_of_the_platform(
    write_host: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindgap.run.worker_supervisor._HOST_PAUSE_S", 60.0)
    gate = tmp_path / "open"
    gate.touch()
    write_host(f"sh -c 'test -e {gate} && exec {WORKER}'", wait_s=0)
    with WorkerPool([ZOO]) as pool:
        assert is_right(pool.run(job(want="outputs")))
        gate.unlink()
        kill_there(pool)
        with pytest.raises(HostProblem, match=r"host edge: its command .* ended with status 1: it said nothing"):
            pool.run(job())
        gate.touch()
        with pytest.raises(HostProblem):
            pool.run(job())  # it was just tried
        pool._supervisor(ZOO)._unreached = None
        assert is_right(pool.run(job(want="outputs"))), "it is back"


def test_a_restart_there_is_waited_for(write_host: Write, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    gate.touch()
    write_host(f"sh -c 'test -e {gate} && exec {WORKER}'", wait_s=20)
    with WorkerPool([ZOO]) as pool:
        assert is_right(pool.run(job(want="outputs")))
        gate.unlink()
        kill_there(pool)
        threading.Timer(0.5, gate.touch).start()
        assert is_right(pool.run(job(want="outputs")))
        assert pool.starts(ZOO) > 2


def test_nothing_is_left_there_when_the_driver_ends(write_host: Write) -> None:
    with WorkerPool([ZOO]) as pool:
        pool.run(job())
        there = psutil.Process(pool.pids()[ZOO]).children(recursive=True)
    assert there and not psutil.wait_procs(there, timeout=10)[1]


def test_files_of_this_machine_are_not_named_there(write_host: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write_host(f"env ZOO_FILES=/there {WORKER}")
    name = parse("misbehaving:BACKEND@flag=file,host=edge")
    backend, options = find(name)
    assert backend.environment(options) == {}, "this machine lacks the file"
    monkeypatch.setenv("ZOO_FILES", "/here")
    assert backend.environment(options) == {} and backend.environment({"flag": "text"}) == {"ZOO_FLAG": "text"}
    with WorkerPool([name]) as pool:
        assert pool.describe(name)["flag"] == "/there/file"


def test_processor_time_is_that_of_the_worker_there(write_host: Write) -> None:
    with WorkerPool([ZOO]) as pool:
        pool.run(job())
        meter = CpuMeter(pool.cpu, ZOO)
        spent = pool.run(job("burn", repeat=1)).timings["cpu"]
        assert 0.1 <= spent < 1.0 and meter.read() == pytest.approx(spent)
        assert pool.run(job("segfault")).status == "crash"
        assert meter.read() > 0.05, "its start, and what it spent until it ended"


def test_no_folder_is_left_there(write_host: Write, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (left := tmp_path / "tmp/mindgap-hosted-killed").mkdir()
    os.utime(left, (0, 0))
    write_host(f"env TMPDIR={tmp_path}/tmp {WORKER}")
    with WorkerPool([ZOO]) as pool:
        pool.run(job())
        (made,) = (tmp_path / "tmp").iterdir()
        assert made != left, "what a killed process left goes with the next"
    assert not list((tmp_path / "tmp").iterdir())


def test_what_runs_there_dies_with_its_parent(write_host: Write) -> None:
    connection = HostConnection(find_host("edge"), Order(["/bin/sleep", "100"]), 20.0)
    until = time.monotonic() + 10
    while not (there := psutil.Process(connection.process.pid).children()) and time.monotonic() < until:
        time.sleep(0.01)
    connection.process.kill()
    connection.end()
    assert there and not psutil.wait_procs(there, timeout=10)[1]


@pytest.mark.parametrize("line", [b"no order\n", b"{}\n", b'{"command": "ls"}\n', b""])
def test_a_line_that_is_no_order_is_named(line: bytes) -> None:
    done = subprocess.run(WORKER.split(), input=line, capture_output=True, check=False)
    said = b"" if not line else b"mindgap worker: what came is no order: the command of a host starts it, no person\n"
    assert (done.returncode, done.stderr) == (2 if line else 0, said)


def test_a_full_disk_there_is_one_line(write_host: Write, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("no folder can be made here")
    store = TensorStore(tmp_path / "here")
    with WorkerPool([ZOO], tensors=store) as pool:
        with pytest.raises(HostProblem, match=r"host edge: tensors cannot be written to .*there/tensors: "):
            pool.run(Job(ZOO, with_tensor(store, np.zeros(30_000, np.float32))))
        assert is_right(pool.run(job(want="outputs"))), "what needs no tensor runs"


def test_a_disk_there_that_fills_up_in_the_middle_of_a_tensor_is_one_line(write_host: Write, tmp_path: Path) -> None:
    # No file there may become larger than 20 KiB, as on a disk with as much room.
    write_host(f"sh -c 'ulimit -f 40; exec {sys.executable} -m mindgap worker'")
    large = np.random.default_rng(1).random(300_000, np.float32)
    store = TensorStore(tmp_path / "here")
    with WorkerPool([ZOO], tensors=store) as pool:
        with pytest.raises(HostProblem, match=r"host edge: tensors cannot be written to .*: File too large") as error:
            pool.run(Job(ZOO, with_tensor(store, large)))
        assert "\n" not in str(error.value)
        assert is_right(pool.run(Job(ZOO, with_tensor(store, np.zeros(4_000, np.float32)), want="outputs"))), (
            "a small one fits"
        )
    assert not [path for path in (tmp_path / "there").rglob("*") if path.name.startswith(".tmp")]


def test_scripts_and_versions_come_from_there(write_host: Write) -> None:
    host = find_host("edge")
    found = versions_there(host, ("numpy", "no-such-package"))
    assert found == {"numpy": np.__version__}
    code = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    assert run_script_there(host, "import sys\nprint('said')\nsys.exit(1)\n", code, 20.0)[:2] == (1, "said\n")


# -- what answers, and what does not --

OTHER = f"""import json, sys
greeting = {{"mindgap": "0.0.9", "protocol": {PROTOCOL}, "python": "3.12.1", "implementation": "CPython"}}
print({GREETING!r} + json.dumps(greeting | CHANGED), flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (
            {"protocol": PROTOCOL - 1},
            f"mindgap 0.0.9 there speaks protocol {PROTOCOL - 1}, mindgap {__version__} here protocol {PROTOCOL}",
        ),
        ({"python": "3.8.2"}, "its Python is CPython 3.8.2; workers need CPython 3.10 or newer"),
        ({"missing": ["xxhash", "zstandard"]}, "lacks xxhash zstandard, which workers need: pip install"),
        ({"problem": "no temporary folder can be made: No space left on device"}, "No space left on device there"),
        ({"terminal": True}, "its command gives a terminal, which changes bytes: leave -t out"),
        ({"protocol": "six"}, "its greeting cannot be read"),
        ({"python": "3.x"}, "its greeting cannot be read"),
        ({"missing": 5}, "its greeting cannot be read"),
    ],
)
def test_what_the_other_side_lacks_is_named(
    write_host: Write, tmp_path: Path, changed: dict[str, object], line: str
) -> None:
    (tmp_path / "other.py").write_text(OTHER.replace("CHANGED", repr(changed)))
    write_host(f"{sys.executable} -S other.py")
    reason = find("cpu/eager@host=edge")[0].probe().reason
    assert reason.startswith("host edge: ") and line in reason and "\n" not in reason


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (f"{sys.executable} -S -c 'import mindgap'", f"its Python has no mindgap: install mindgap {__version__} there"),
        ("no-such-program edge", "its command no-such-program edge cannot be run: No such file or directory"),
        ("sh -c 'exec python9 -m mindgap worker'", "ended with status 127"),
        (r"sh -c 'echo edge: Permission denied \(publickey\). >&2; exit 255'", "ssh -o BatchMode=yes"),
        ("sh -c 'echo No such command: worker >&2; exit 2'", "the mindgap there is older than hosts are"),
        ("sh -c 'yes welcome'", "bytes came on standard output and no greeting of mindgap"),
        ("sh -c 'echo password: >&2; exec sleep 100'", "no answer within 1 s; it says: password:; mindgap answers no"),
    ],
)
def test_what_is_no_worker_of_mindgap_is_one_line(write_host: Write, command: str, line: str) -> None:
    write_host(command, connect_s=1)
    reason = find("cpu/eager@host=edge")[0].probe().reason
    assert reason.startswith("host edge: ") and line in reason and "\n" not in reason


def test_a_banner_before_the_greeting_is_left_out(write_host: Write) -> None:
    banner = shlex.quote(f"echo 'Welcome to edge'; seq 1000; exec {sys.executable} -m mindgap worker")
    write_host(f"sh -c {banner}")
    assert run_there(find_host("edge"), Order([PYTHON, "-S", "-c", "print('it ran')"]), 20.0)[:2] == (0, "it ran\n")


def test_a_program_there_that_ends_is_told_from_a_connection_that_does(write_host: Write) -> None:
    code = "import os; os.kill(os.getppid(), 9)"
    with pytest.raises(HostProblem, match="the connection was lost"):
        run_there(find_host("edge"), Order([PYTHON, "-S", "-c", code]), 20.0)
    status, _, err = run_there(find_host("edge"), Order([PYTHON, "-S", "-c", "import sys; sys.exit('why')"]), 20.0)
    assert (status, err.strip()) == (1, "why")


def test_records_on_standard_error_arrive_in_pieces() -> None:
    text = b"one\x1ealive\x1e two\n\x1eended " + b'{"status": -11, "oom": false, "cpu": 1.5}' + b"\x1ethree"
    for size in (1, 2, 7, 100):
        link = HostLink(Host("edge", ("true",)))
        rest = b"".join(link.without_records(text[at : at + size]) for at in range(0, len(text), size))
        assert rest == b"one two\nthree" and link.ended == {"status": -11, "oom": False, "cpu": 1.5}


@pytest.mark.parametrize("told", ['{"x":1}', "[1]", '{"status": 1, "oom": false, "cpu": NaN}', "[" * 100_000])
def test_a_record_that_is_none_tells_no_end(told: str) -> None:
    link = HostLink(Host("edge", ("true",)))
    assert link.without_records(f"a\x1eended {told}\x1eb".encode()) == b"ab" and link.ended is None


ANSWERING = """import os
from mindgap.run.channel import FrameReader, send_frame
tell = lambda *answer, **more: send_frame(1, dict(*answer, **more))
tell(kind="ready", protocol=PROTOCOL, description={}, fingerprint="f", cpu=0.5)
FrameReader(0).next()
ANSWER
os.read(0, 1)
"""


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("tell(clock='stop', cpu='x')", "processor seconds that are no number"),
        ("tell(kind='need', tensors=5)", "it asks for tensors, and names none"),
        ("tell(kind='need', tensors=['SECRET'])", "a tensor that no graph of the job has"),
        ("tell(kind='outcome', rss=1, status='fine', outputs=[], timings={})", "an answer that is no outcome"),
    ],
)
def test_a_damaged_answer_is_an_outcome(write_host: Write, tmp_path: Path, answer: str, line: str) -> None:
    store = TensorStore(tmp_path / "here")
    answer = answer.replace("SECRET", tensor_key(np.ones(30_000, np.float32)))
    store.put(np.ones(30_000, np.float32))
    text = OTHER.replace("CHANGED", "{}") + ANSWERING.replace("PROTOCOL", str(PROTOCOL)).replace("ANSWER", answer)
    (tmp_path / "other.py").write_text(text)
    write_host(f"{sys.executable} other.py")
    with WorkerPool([ZOO], tensors=store) as pool:
        outcome = pool.run(job(confirmed=False))
    assert outcome.status == "crash" and outcome.message.startswith("garbage on the channel: ")
    assert line in outcome.message


def test_only_a_killed_process_ran_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_worker, "oom_kills", lambda: 8)
    assert host_worker._ended(-signal.SIGKILL, 7)["oom"] and not host_worker._ended(-signal.SIGKILL, 8)["oom"]
    assert not host_worker._ended(-signal.SIGSEGV, 7)["oom"]


def test_a_worker_there_that_reads_nothing_is_replaced(write_host: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindgap.platforms.environments.host_connection.STALLED_S", 0.5)
    with WorkerPool([ZOO]) as pool:
        assert is_right(pool.run(job(want="outputs")))
        next(iter(psutil.Process(pool.pids()[ZOO]).children())).suspend()
        assert is_right(pool.run(job(want="outputs", deadline_s=0.6))), "by another worker"
        assert pool.starts(ZOO) == 2


def test_a_worker_there_that_holds_its_answer_back_is_a_timeout(
    write_host: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindgap.platforms.environments.host_connection.STALLED_S", 0.5)
    answer = "tell(clock='start'); tell(clock='stop', cpu=1.0)"
    text = OTHER.replace("CHANGED", "{}") + ANSWERING.replace("PROTOCOL", str(PROTOCOL)).replace("ANSWER", answer)
    (tmp_path / "other.py").write_text(text + "\n")
    write_host(f"{sys.executable} other.py")
    with WorkerPool([ZOO]) as pool:
        outcome = pool.run(job(deadline_s=0.6))
    assert outcome.status == "timeout" and "nothing came of an answer for 0.6 s" in outcome.message


REBOOTING = """import sys
from mindgap.platforms.environments import host_worker
with open("boots", "a+") as file:
    file.write(".")
    host_worker._boot = lambda boots=file.tell(): BOOT
sys.exit(host_worker.main())
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("boot", ["'same'", "f'boot {boots}'"])
def test_a_graph_that_takes_the_machine_down_twice_is_a_crash(write_host: Write, tmp_path: Path, boot: str) -> None:
    (tmp_path / "other.py").write_text(REBOOTING.replace("BOOT", boot))
    write_host(f"{sys.executable} other.py")
    with WorkerPool([ZOO]) as pool:
        if "boots" in boot:
            outcome = pool.run(job("take_down"))
            assert (outcome.status, pool.starts(ZOO)) == ("crash", 3)
            assert (
                outcome.message == "the machine went down while it ran this (twice: the second time on a fresh worker)"
            )
            assert pool.run(job()).status == "ok"
        else:
            with pytest.raises(
                HostProblem, match=r"the connection was lost: nothing says why, while running \(twice\)"
            ):
                pool.run(job("take_down"))


def test_closing_waits_for_no_host(write_host: Write) -> None:
    def ask(pool: WorkerPool) -> None:
        with pytest.raises(HostProblem, match="nobody waits for it any more"):
            pool.run(job())

    write_host("sleep 100", connect_s=60)
    with WorkerPool([ZOO]) as pool:
        asking = threading.Thread(target=ask, args=(pool,))
        asking.start()
        while not psutil.Process().children():
            time.sleep(0.01)
        started = time.monotonic()
    asking.join(10)
    assert not asking.is_alive() and time.monotonic() - started < 10


@pytest.mark.nightly
def test_a_host_that_is_silent_is_lost(write_host: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    with WorkerPool([ZOO]) as pool:
        assert is_right(pool.run(job(want="outputs")))
        monkeypatch.setattr("mindgap.platforms.environments.host_connection.LOST_S", 5.0)
        process = psutil.Process(pool.pids()[ZOO])
        stopped = [process, *process.children(recursive=True)]
        started = time.monotonic()
        for each in stopped:
            each.suspend()
        # The link is dropped: nobody says so, and the new connection works.
        assert is_right(pool.run(job(want="outputs")))
        assert time.monotonic() - started < 60
        for each in stopped:
            if each.is_running():
                each.kill()
