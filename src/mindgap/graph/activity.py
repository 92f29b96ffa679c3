"""What a thread is doing now, in words, for whoever shows progress.

A long computation calls `doing`; who wants to know runs it within `telling`. Without a receiver nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_RECEIVER: Final[ContextVar[Callable[[str], None] | None]] = ContextVar("receiver", default=None)


def doing(what: str, done: int = 0, total: int = 0) -> None:
    """Tells the receiver what is done now. `done` of `total`: how far it is; no total, no numbers."""
    receiver = _RECEIVER.get()
    if receiver is not None:
        receiver(f"{what} {done} of {total}" if total else what)


@contextmanager
def telling(receiver: Callable[[str], None]) -> Generator[None]:
    """Sends to the receiver what this thread does within the block."""
    token = _RECEIVER.set(receiver)
    try:
        yield
    finally:
        _RECEIVER.reset(token)
