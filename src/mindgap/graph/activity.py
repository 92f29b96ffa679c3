"""What a thread is doing now, in words, for whoever shows progress or ends it.

A long computation calls `doing`; who wants to know runs it within `telling`. Without a receiver nothing happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class _Telling:
    """A receiver, and how many steps of each kind it was told of."""

    receiver: Callable[[str], None]
    steps: Counter[str] = field(default_factory=Counter[str])


_TELLING: Final[ContextVar[_Telling | None]] = ContextVar("telling", default=None)


def doing(what: str, step: str = "") -> None:
    """Tells the receiver what is done now. `step`: what is counted over the whole computation, as in `operators
    evaluated`: the count only grows. Raises what the receiver raises, to end the computation."""
    telling = _TELLING.get()
    if telling is None:
        return
    if step:
        telling.steps[step] += 1
        what = f"{what}: {telling.steps[step]:,} {step}"
    telling.receiver(what)


@contextmanager
def telling(receiver: Callable[[str], None]) -> Generator[None]:
    """Sends to the receiver what this thread does within the block."""
    token = _TELLING.set(_Telling(receiver))
    try:
        yield
    finally:
        _TELLING.reset(token)
