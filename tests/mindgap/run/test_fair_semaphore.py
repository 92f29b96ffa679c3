"""Nobody is passed over."""

from __future__ import annotations

import threading
import time

from mindgap.run.fair_semaphore import FairSemaphore


def test_who_comes_back_at_once_waits_for_the_others() -> None:
    turns, order, stop = FairSemaphore(), list[str](), threading.Event()

    def greedy() -> None:
        while not stop.is_set():
            with turns:
                order.append("greedy")
                time.sleep(0.002)

    thread = threading.Thread(target=greedy)
    thread.start()
    while len(order) < 3:
        time.sleep(0.001)
    for _ in range(20):
        with turns:
            order.append("patient")
    stop.set()
    thread.join()
    first = order.index("patient")
    last = len(order) - 1 - order[::-1].index("patient")
    assert last - first + 1 - 20 <= 25, "about one job of the greedy thread between two of the patient one"


def test_so_many_go_at_a_time_and_others_give_up_in_time() -> None:
    turns = FairSemaphore(2)
    assert turns.acquire() and turns.acquire(timeout=0)
    assert not turns.acquire(timeout=0) and not turns.acquire(timeout=0.01)
    turns.release()
    assert turns.acquire(timeout=0) and not turns.acquire(timeout=0)
    for _ in range(2):
        turns.release()
    assert [turns.acquire(timeout=0) for _ in range(3)] == [True, True, False]


def test_turns_are_neither_lost_nor_doubled() -> None:
    turns, inside, most, done = FairSemaphore(3), [0], [0], [0]
    guard = threading.Lock()

    def work(patience: float | None) -> None:
        for _ in range(50):
            if not turns.acquire(patience):
                continue
            with guard:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.0002)
            with guard:
                inside[0] -= 1
                done[0] += 1
            turns.release()

    threads = [threading.Thread(target=work, args=(0.0003 if n % 2 else None,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 3 and done[0] >= 300 and [turns.acquire(0) for _ in range(4)] == [True, True, True, False]


def test_who_is_let_go_first_passes_all_that_wait() -> None:
    turns, order = FairSemaphore(), list[str]()
    assert turns.acquire()

    def wait(name: str, first: bool) -> threading.Thread:
        def go() -> None:
            with turns.turn(first=first):
                order.append(name)

        waiting = len(turns._waiting)
        thread = threading.Thread(target=go)
        thread.start()
        while len(turns._waiting) == waiting:
            time.sleep(0.001)
        return thread

    threads = [wait("a", False), wait("b", False), wait("judge", True)]
    turns.release()
    for thread in threads:
        thread.join()
    assert order == ["judge", "a", "b"]
