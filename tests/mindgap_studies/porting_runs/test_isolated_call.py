"""What functions do to their process costs only themselves."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from mindgap_studies.porting_runs.isolated_call import CallLimits, Tell, run_isolated

FAST = CallLimits(deadline_s=20)


def test_what_is_told_arrives_in_order() -> None:
    ended = run_isolated(lambda tell: [tell({"k": k}) for k in range(3)] and None, FAST)
    assert ended.fault == "" and ended.told == [{"k": 0}, {"k": 1}, {"k": 2}]


def test_a_process_that_ends_itself_is_a_crash_with_its_last_words() -> None:
    def ends(tell: Tell) -> None:
        tell({"k": 0})
        os.write(2, b"so long\n")
        os._exit(3)

    ended = run_isolated(ends, FAST)
    assert (ended.fault, ended.told) == ("crash", [{"k": 0}])
    assert ended.message == "exited with status 3 while running: so long"
    assert (
        run_isolated(lambda tell: signal.raise_signal(signal.SIGKILL), FAST).message
        == "killed by SIGKILL while running"
    )


def test_a_function_that_waits_for_input_gets_none() -> None:
    assert run_isolated(lambda tell: tell({"read": os.read(0, 1).decode()}), FAST).told == [{"read": ""}]


def test_a_function_that_closes_its_descriptors_and_goes_on_is_ended() -> None:
    def closes(tell: Tell) -> None:
        os.closerange(0, 256)
        time.sleep(60)

    started = time.monotonic()
    ended = run_isolated(closes, FAST)
    assert (ended.fault, ended.message) == ("crash", "closed its channel while running")
    assert time.monotonic() - started < 15


def test_a_function_that_hangs_is_ended_with_what_it_started() -> None:
    def hangs(tell: Tell) -> None:
        tell({"pid": subprocess.Popen(["sleep", "60"]).pid})
        time.sleep(60)

    started = time.monotonic()
    ended = run_isolated(hangs, CallLimits(deadline_s=0.5))
    assert (ended.fault, ended.message) == ("time-out", "no answer within 0.5 s")
    assert time.monotonic() - started < 15
    status = Path(f"/proc/{ended.told[0]['pid']}/stat")
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() - started < 15
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_function_that_takes_too_much_memory_is_ended() -> None:
    def takes(tell: Tell) -> None:
        held = bytearray(512 << 20)
        held[::4096] = b"x" * len(held[::4096])
        time.sleep(20)

    assert run_isolated(takes, CallLimits(20, memory_bytes=400 << 20)).fault == "memory"


def test_what_it_writes_is_in_a_folder_of_its_own_that_is_gone_afterwards() -> None:
    def writes(tell: Tell) -> None:
        Path("left.txt").write_text("here")
        tell({"folder": os.getcwd(), "files": os.listdir()})

    ended = run_isolated(writes, FAST)
    assert ended.told[0]["files"] == ["left.txt"]
    assert not Path(ended.told[0]["folder"]).exists() and not Path("left.txt").exists()
