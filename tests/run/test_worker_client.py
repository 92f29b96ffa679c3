"""The client of one worker process: started on demand, replaced after it died, stopped."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from mindgap.run.process import RequestLimits, WorkerFailed
from mindgap.run.worker_client import WorkerClient

LIMITS = RequestLimits(60.0)
ECHO = """
import sys
from mindgap.run.channel import FrameReader, send_frame
from mindgap.run.worker_setup import claim_channel, serve_until_hangup

requests, answers = claim_channel()
reader = FrameReader(requests)
send_frame(answers, {"kind": "ready", "arguments": sys.argv[1:]})


def serve():
    while True:
        frame = reader.next()
        if frame.header["kind"] == "die":
            raise SystemExit(3)
        send_frame(answers, {"kind": "echo", "of": frame.header["kind"]}, frame.arrays)


serve_until_hangup(serve)
"""


@pytest.fixture
def client(tmp_path: Path):
    (tmp_path / "echo_worker.py").write_text(ECHO)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    made = WorkerClient("echo_worker", {"memory-limit": 7}, environment, LIMITS)
    yield made
    made.close()


def test_one_process_answers_all_requests_and_is_given_its_options(client: WorkerClient) -> None:
    assert client.process is None
    assert client.ask({"kind": "one"}, (), LIMITS).header["of"] == "one"
    assert client.ready is not None
    assert client.ready.header["arguments"] == ["--parent", str(os.getpid()), "--memory-limit", "7"]
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
