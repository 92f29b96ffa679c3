"""What a thread is doing now, in words, for whoever shows progress or ends it.

A long computation calls `report_activity`; who wants to know runs it within `activity_receiver`. Without a receiver
nothing happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class _Receiver:
    """A receiver, and how many steps of each kind it received."""

    tell: Callable[[str], None]
    steps: Counter[str] = field(default_factory=Counter[str])


_RECEIVER: Final[ContextVar[_Receiver | None]] = ContextVar("receiver", default=None)


def report_activity(what: str, step: str = "") -> None:
    """Tells the receiver what is done now. `step`: what is counted over the whole computation, as in `operators
    evaluated`: the count only grows. Raises what the receiver raises, to end the computation."""
    receiver = _RECEIVER.get()
    if receiver is None:
        return
    if step:
        receiver.steps[step] += 1
        what = f"{what}: {receiver.steps[step]:,} {step}"
    receiver.tell(what)


@contextmanager
def activity_receiver(receiver: Callable[[str], None]) -> Generator[None]:
    """Sends to the receiver what this thread does within the block."""
    token = _RECEIVER.set(_Receiver(receiver))
    try:
        yield
    finally:
        _RECEIVER.reset(token)
