"""Worker processes of one kind, of which each caller takes one. A slow request makes another one start."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from mindgap.run.worker_client import WorkerClient

#: Seconds for which others wait for a request. An export that hangs takes until its deadline.
SLOW_S: Final = 30.0
#: Each has imported PyTorch, and what the exports of its programs need.
_MOST: Final = 4


@dataclass
class _Process:
    """`since`: the moment at which its request began, infinite before that; None where it is free. `lock`: held
    meanwhile."""

    client: WorkerClient
    since: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Processes:
    """Gives each caller a process for itself. Thread-safe.

    The next caller waits for the first process, which has imported everything. Where all of them have worked on their
    requests for a while, another one is started: a program that hangs does not hold up the others.
    """

    def __init__(self, start: Callable[[], WorkerClient], slow_s: float = SLOW_S, most: int = _MOST) -> None:
        """`start`: returns the client of another process. `slow_s`: seconds until a request counts as slow. `most`:
        processes at once."""
        self._start, self._slow_s, self._most = start, slow_s, most
        self._all: list[_Process] = []
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, ready: Callable[[WorkerClient], object] | None = None) -> Generator[WorkerClient]:
        """Yields a client that no other thread has. `ready`: starts its process; that does not count as slow."""
        process = self._free()
        try:
            with process.lock:
                if ready is not None:
                    ready(process.client)
                with self._changed:
                    process.since = time.monotonic()
                    self._changed.notify_all()
                yield process.client
        finally:
            with self._changed:
                process.since = None
                self._changed.notify()

    def _free(self) -> _Process:
        with self._changed:
            while True:
                busy = [each.since for each in self._all if each.since is not None]
                if len(busy) < len(self._all):
                    process = next(each for each in self._all if each.since is None)
                    break
                left = max(busy, default=0.0) + self._slow_s - time.monotonic()
                if not busy or (left <= 0 and len(busy) < self._most):
                    process = _Process(self._start())
                    self._all.append(process)
                    break
                self._changed.wait(left if len(busy) < self._most and left < math.inf else None)
            process.since = math.inf
            return process

    def kill(self) -> None:
        """Ends all processes from another thread, in the middle of requests too. They start no others."""
        with self._changed:
            for each in self._all:
                each.client.closing = True
                each.client.kill()

    def end_idle(self) -> None:
        """Ends the processes that work on no request. The next request starts one again."""
        with self._changed:
            idle = [each for each in self._all if each.since is None]
            self._all = [each for each in self._all if each.since is not None]
        for each in idle:
            each.client.shut(each.lock)

    def close(self) -> None:
        for each in [*self._all]:
            each.client.shut(each.lock)
