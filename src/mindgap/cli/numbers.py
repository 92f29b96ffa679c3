"""Checks numbers on the command line."""

from __future__ import annotations

import math
import re
import time
from typing import Final

import psutil
import typer

from mindgap.graph import MindgapError

_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|)")
_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def finite(value: float | None) -> float | None:
    """Refuses `nan` and `inf`, which pass the range check of an option. A callback of typer options."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value:g} is not a finite number")
    return value


def positive(option: str, value: float) -> float:
    """Returns a number of seconds that is finite and more than 0. Raises `MindgapError` for any other."""
    if not 0 < value < math.inf:
        raise MindgapError(f"{option} {value:g}: it takes seconds, more than 0")
    return value


def seconds_of(option: str, text: str) -> float:
    """Parses a time: `90`, `90s`, `10m`, `1.5h`. Raises `MindgapError` for what is none, or not more than 0."""
    match = _TIME.fullmatch(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not seconds:
        raise MindgapError(f"{option} {text}: it takes a time, more than 0, as in {option} 10m (s, m or h)")
    return seconds


def whole_numbers(option: str, text: str, *, repeated: bool = False) -> list[int]:
    """Parses `1,2,4`: each number once, in order; with `repeated`, all of them. Raises `MindgapError`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise MindgapError(f"{option} {text}: write whole numbers from 1 up, as in {option} 1,2,4")
    numbers = [int(part) for part in parts]
    return numbers if repeated else list(dict.fromkeys(numbers))


def budget_left(option: str, text: str) -> float:
    """What is left of a time for a whole command, which began with its process. Raises `MindgapError`, as `seconds_of`.

    Something is left always: a command that began too late reports that nothing ran.
    """
    used = time.time() - psutil.Process().create_time()
    return max(seconds_of(option, text) - used, 0.1)
