"""A semaphore that serves waiting threads in order of arrival, with priority for some."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType


class FairSemaphore:
    """Serves waiting threads first in, first out. Thread-safe.

    A plain lock that a thread acquires again right after releasing it mostly goes to the same thread.
    """

    def __init__(self, count: int = 1) -> None:
        """`count`: how many threads may hold it at a time."""
        self._guard = threading.Lock()
        self._free = count
        self._waiting: deque[threading.Event] = deque()

    @contextmanager
    def turn(self, *, first: bool) -> Generator[None]:
        """Acquires for a block. `first`: before all threads that wait already."""
        self.acquire(first=first)
        try:
            yield
        finally:
            self.release()

    def acquire(self, timeout: float | None = None, *, first: bool = False) -> bool:
        """Returns whether it was acquired within `timeout` seconds. `first` as in `turn`."""
        with self._guard:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Event()
            if first:
                self._waiting.appendleft(turn)
            else:
                self._waiting.append(turn)
        try:
            turn.wait(timeout)
        except BaseException:
            if not self._withdrawn(turn):
                self.release()
            raise
        return not self._withdrawn(turn)

    def _withdrawn(self, turn: threading.Event) -> bool:
        """Removes a waiter from the queue. Returns false if it holds the semaphore already."""
        with self._guard:
            if turn.is_set():
                return False
            self._waiting.remove(turn)
            return True

    def release(self) -> None:
        """Passes the semaphore to the thread that has waited longest."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
