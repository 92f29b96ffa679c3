"""Measures calls on a source and a target in turn.

A process that measures is held on one processor, and its seconds are processor time: of all its threads, and of the
compilers that it started. On one processor that is the time that passes without other work. Calls of devices are
measured by the clock, for a device's work costs the processor none.
"""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

Clock = Callable[[], float]
#: The seconds of a process: of the first call on each side, and of later calls.
SIDES: Final = ("source_first", "target_first", "source", "target")
#: Calls are repeated until they take so long together: reading the processor's time takes 0.3 µs.
_BATCH_S: Final = 2e-4
_MOST_CALLS: Final = 200


def processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def clock_of(on_device: bool) -> Clock:
    return time.perf_counter if on_device else processor_seconds


def hold_on_one_processor(number: int) -> None:
    """Holds this process on one of its processors, by a number that may be larger than their count. To be called before
    a runtime starts its threads."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[number % len(allowed)]})


def seconds_of(call: Callable[[], Any], clock: Clock) -> float:
    started = clock()
    call()
    return clock() - started


def seconds_in_turn(
    source: Callable[[], Any], target: Callable[[], Any], rounds: int, on_device: bool = False
) -> tuple[list[float], list[float]]:
    """Returns the seconds of a call on each side, `rounds` times, one side after the other.

    Each is the mean of as many calls as take 0.2 ms together, 200 at most. Both sides were called before.
    """
    clock: Clock = time.perf_counter if on_device else time.process_time
    sides = [(call, _repeats(call)) for call in (source, target)]
    found: tuple[list[float], list[float]] = ([], [])
    with _no_collection():
        for _ in range(rounds):
            for (call, repeats), kept in zip(sides, found, strict=True):
                started = clock()
                for _ in range(repeats):
                    call()
                kept.append((clock() - started) / repeats)
    return found


def _repeats(call: Callable[[], Any]) -> int:
    took = min(seconds_of(call, time.perf_counter) for _ in range(3))
    return max(1, min(_MOST_CALLS, int(_BATCH_S / max(took, 1e-9))))


@contextmanager
def _no_collection() -> Generator[None]:
    """Within the block, Python collects no garbage in the middle of a call."""
    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
