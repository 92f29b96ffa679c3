"""Who waits longest goes first, but for those who are let go before."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType


class Turns:
    """A semaphore that serves in the order of asking, also those that come back at once. Thread-safe.

    A plain lock that is asked for again as soon as it is given back is mostly got by the same thread again.
    """

    def __init__(self, count: int = 1) -> None:
        """`count`: how many may go at a time."""
        self._guard = threading.Lock()
        self._free = count
        self._waiting: deque[threading.Event] = deque()

    @contextmanager
    def turn(self, *, first: bool) -> Generator[None]:
        """Holds a turn. `first`: before all that wait already, for what many others wait for in turn."""
        self.acquire(first=first)
        try:
            yield
        finally:
            self.release()

    def acquire(self, timeout: float | None = None, *, first: bool = False) -> bool:
        """Waits for a turn, so many seconds at most; whether there was one. `first` as in `turn`."""
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
        """Takes a waiter out of the queue; False where its turn has come."""
        with self._guard:
            if turn.is_set():
                return False
            self._waiting.remove(turn)
            return True

    def release(self) -> None:
        """Gives the turn to who has waited longest."""
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
