"""The client of one worker process: started on demand, replaced after it died, stopped."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.run.channel import Frame
from mindgap.run.cpu import CpuAccount
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits, WorkerProcess
from mindgap.run.worker_client import CannotOpen, WorkerClient, WorkerStart, if_doubtful

LIMITS = RequestLimits(60.0)
ECHO = """
import sys
from mindgap.graph import MindgapError
from mindgap.run.server import Service


def echo_service(channel, **options):
    if "broken" in options:
        raise ValueError("no such thing")

    def echo(frame):
        if frame.header["kind"] == "die":
            raise SystemExit(3)
        if frame.header["kind"] == "bad":
            raise MindgapError("bad input")
        return {"kind": "echo", "of": frame.header["kind"]}, frame.arrays

    kinds = ("one", "two", "die", "bad", "again", "between")
    return Service(dict.fromkeys(kinds, echo), {"options": options, "arguments": sys.argv[1:]})
"""


@pytest.fixture
def start(tmp_path: Path) -> WorkerStart:
    (tmp_path / "echo_worker.py").write_text(ECHO)
    return WorkerStart(
        "echo_worker:echo_service", {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    )


@pytest.fixture
def client(start: WorkerStart):
    made = WorkerClient(start, {"depth": 7}, LIMITS)
    yield made
    made.close()


def test_one_process_answers_all_requests_and_is_given_its_options(client: WorkerClient) -> None:
    assert client.process is None
    assert client.ask({"kind": "one"}, (), LIMITS).header["of"] == "one"
    assert client.about["options"] == {"depth": 7}
    assert client.about["arguments"][:3] == ["echo_worker:echo_service", "--parent", str(os.getpid())]
    worker = client.process
    assert client.ask({"kind": "two"}, (), LIMITS).header["of"] == "two"
    assert client.process is worker and worker is not None and worker.jobs == 2


def test_a_process_that_dies_is_replaced_by_the_next_request(client: WorkerClient) -> None:
    with pytest.raises(WorkerFailed, match="exited with status 3 while die"):
        client.ask({"kind": "die"}, (), LIMITS)
    assert client.process is None
    assert client.ask({"kind": "again"}, (), LIMITS).header["of"] == "again"
    assert client.process is not None
    os.kill(client.process.pid, signal.SIGKILL)
    while client.process.alive:
        pass
    assert client.ask({"kind": "between"}, (), LIMITS).header["of"] == "between"


def test_close_ends_the_process(client: WorkerClient) -> None:
    pid = client.started().pid
    client.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_bad_input_is_refused_and_ends_nothing(client: WorkerClient) -> None:
    answer = client.ask({"kind": "bad"}, (), LIMITS).header
    assert answer["kind"] == "refused" and answer["message"] == "bad input" and answer["cpu_seconds"] >= 0
    assert client.process is not None and client.process.alive


def test_a_service_that_cannot_be_opened_says_why(start: WorkerStart) -> None:
    broken = WorkerClient(start, {"broken": True}, LIMITS)
    with pytest.raises(CannotOpen, match="ValueError: no such thing") as refused:
        broken.started()
    assert not refused.value.permanent and not refused.value.ours and broken.process is None
    with pytest.raises(CannotOpen, match="no_such_module") as missing:
        WorkerClient(replace(start, service="no_such_module:echo_service"), {}, LIMITS).started()
    assert missing.value.permanent


def test_a_request_is_tried_again_where_earlier_ones_may_have_damaged_the_process(client: WorkerClient) -> None:
    pids: list[int] = []

    def deadly(worker: WorkerProcess) -> Frame:
        pids.append(worker.pid)
        return worker.ask({"kind": "die"}, (), LIMITS)

    with pytest.raises(WorkerFailed):
        client.attempt(deadly, if_doubtful)
    assert len(pids) == 1
    client.ask({"kind": "one"}, (), LIMITS)
    with pytest.raises(WorkerFailed):
        client.attempt(deadly, if_doubtful)
    assert len(set(pids)) == 3
    client.ask({"kind": "one"}, (), LIMITS)
    client.closing = True
    with pytest.raises(WorkerFailed):
        client.attempt(deadly, if_doubtful)
    assert len(pids) == 4


def test_processor_time_is_charged_but_not_that_of_starting(start: WorkerStart) -> None:
    account = CpuAccount()
    client = WorkerClient(start, {}, LIMITS, account, "echo", "judging")
    client.ask({"kind": "one"}, (), LIMITS)
    client.close()
    spent = account.snapshot()
    assert set(spent) == {("starting", "echo"), ("judging", "echo")}
    assert spent["starting", "echo"] > 0 and spent["judging", "echo"] == client.spent
