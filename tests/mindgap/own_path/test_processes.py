"""Callers share one process, and another one is started where requests do not end."""

from __future__ import annotations

import threading
import time
from typing import cast

from mindgap.own_path.processes import Processes
from mindgap.run.worker_client import WorkerClient


class _Client:
    """Stands for the client of a process, which is not started here."""

    ended = False

    def shut(self, lock: threading.Lock) -> None:
        with lock:
            self.ended = True


def processes(slow_s: float, most: int = 4) -> tuple[Processes, list[_Client]]:
    made: list[_Client] = []

    def start() -> WorkerClient:
        made.append(_Client())
        return cast("WorkerClient", made[-1])

    return Processes(start, slow_s, most), made


def test_one_process_serves_short_requests() -> None:
    shared, made = processes(slow_s=60.0)
    at_once, seen = list[int](), list[int]()

    def ask() -> None:
        with shared.taken():
            at_once.append(1)
            seen.append(len(at_once))
            time.sleep(0.01)
            at_once.pop()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert len(made) == 1 and seen == [1] * 8


def test_a_request_that_hangs_holds_up_nobody_but_the_most_at_once() -> None:
    shared, made = processes(slow_s=0.2, most=2)
    hang, third, held = threading.Event(), threading.Event(), threading.Semaphore(0)

    def hangs() -> None:
        with shared.taken():
            held.release()
            assert hang.wait(60)

    def waits() -> None:
        with shared.taken():
            third.set()

    first = threading.Thread(target=hangs)
    first.start()
    assert held.acquire(timeout=60)
    with shared.taken() as client:
        assert client is made[1], "it did not wait for the first"
    with shared.taken() as client:
        assert client is made[1], "that one is free again"
    second = threading.Thread(target=hangs)
    second.start()
    assert held.acquire(timeout=60)
    last = threading.Thread(target=waits)
    last.start()
    assert not third.wait(0.6), "there are no more than two"
    hang.set()
    for each in (first, second, last):
        each.join(30)
    assert third.is_set() and len(made) == 2


def test_starting_a_process_does_not_count_as_slow() -> None:
    shared, made = processes(slow_s=0.1)
    waiting = threading.Thread(target=lambda: shared.taken().__enter__())
    with shared.taken(ready=lambda client: (waiting.start(), time.sleep(0.5))):
        assert len(made) == 1
    waiting.join(30)
    assert not waiting.is_alive() and len(made) == 1


def test_idle_processes_are_ended_and_busy_ones_are_not() -> None:
    shared, made = processes(slow_s=0.0)
    with shared.taken(), shared.taken():
        shared.end_idle()
        assert [each.ended for each in made] == [False, False]
    with shared.taken() as busy:
        shared.end_idle()
        assert [each.ended for each in made] == [each is not busy for each in made]
    with shared.taken() as again:
        assert again is busy and len(made) == 2
