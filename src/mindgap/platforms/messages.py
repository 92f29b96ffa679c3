"""Classifies a backend's error messages as refusals or failures by tables of patterns.

Each backend has one table, in a module `..._messages.py`. A row is one kind of message.

- A *refusal* is a missing translation, a typed "not implemented", or the backend's explicit statement that it does
  not support an operator, dtype, rank, layout or attribute. Its outcome is `unsupported`, which is no finding.
- A *failure* is everything else: a translation that raises, an exported model that is invalid, an assertion that does
  not hold. Its outcome is `compile_error` or `runtime_error`, which is a finding.

A message that no row matches is a failure. A row for a failure is needed only where a row below it would take the
message for a refusal, and where people are likely to ask why the message is no refusal.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from mindgap.platforms.protocol import CompileFailure, DeviceLost, RunFailure, Unsupported

Kind = Literal["refusal", "failure"]


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One kind of message.

    `name`: short and unique in its table. `pattern`: searched in the message. `raised`: names of the exception classes
    that the row is for, any class where there is none. `reason`: why the message is of this kind, in one sentence.
    """

    name: str
    kind: Kind
    pattern: re.Pattern[str]
    reason: str
    raised: frozenset[str] = frozenset()

    def matches(self, message: str, raised: str = "") -> bool:
        """Returns whether the row fits a message of an exception of the class named `raised`."""
        return (not self.raised or raised in self.raised) and self.pattern.search(message) is not None


@dataclass(frozen=True, slots=True)
class MessageTable:
    """The rows of one backend, in the order in which they are tried. Names are unique."""

    backend: str
    rows: tuple[MessageRow, ...]

    def __post_init__(self) -> None:
        if len({row.name for row in self.rows}) != len(self.rows):
            raise ValueError(f"two rows of the table {self.backend} have one name")

    def __iter__(self) -> Iterator[MessageRow]:
        return iter(self.rows)

    def find(self, message: str, raised: str = "") -> MessageRow | None:
        """Returns the first row that matches, None without one."""
        return next((row for row in self.rows if row.matches(message, raised)), None)

    @property
    def refusals(self) -> str:
        """A pattern of all refusals that any exception class may carry, for `re.search`."""
        patterns = [row.pattern.pattern for row in self.rows if row.kind == "refusal" and not row.raised]
        return "|".join(f"(?im:{pattern})" for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Reading:
    """A classified message. `row`: the row that matched, None without one.

    `node`: the name of the backend's node that the message is about, `operator`: that node's operator; empty where
    the message names none.
    """

    kind: Kind
    row: MessageRow | None = None
    node: str = ""
    operator: str = ""


def refusal(name: str, pattern: str, reason: str, *raised: str) -> MessageRow:
    """Makes a row for a refusal. The pattern ignores case."""
    return MessageRow(name, "refusal", re.compile(pattern, re.IGNORECASE), reason, frozenset(raised))


def failure(name: str, pattern: str, reason: str, *raised: str) -> MessageRow:
    """Makes a row for a failure. The pattern ignores case."""
    return MessageRow(name, "failure", re.compile(pattern, re.IGNORECASE), reason, frozenset(raised))


#: A device that no longer computes: Vulkan's status, ncnn's lines with its number, Dawn's words.
_LOST: Final = re.compile(r"VK_ERROR_DEVICE_LOST|\bvk\w+ failed -4\b|\[Device[^\]]*\] is lost|WebGPU device lost")


def end_where_lost(message: str) -> None:
    """Ends the worker where a message reports that its device is lost: nothing runs on it any more, and the next graph
    gets a new worker. Raises `DeviceLost` with one line."""
    if _LOST.search(message):
        raise DeviceLost(f"the device is lost to this process: {' '.join(message.split())}")


def loading_error(kind: Kind, message: str, op: str) -> Unsupported | CompileFailure:
    """Makes the exception for a message that stopped loading. `op`: the operator that it is about, empty for none.

    Ends the worker where the device is lost.
    """
    end_where_lost(message)
    return Unsupported(op, message) if kind == "refusal" else CompileFailure(message, op)


def running_error(kind: Kind, message: str, op: str) -> Unsupported | RunFailure:
    """Makes the exception for a message that stopped a run. Ends the worker where the device is lost."""
    end_where_lost(message)
    return Unsupported(op, message) if kind == "refusal" else RunFailure(message, op)


def missing_program(error: BaseException) -> str:
    """Returns the name of a program that could not be started, by the error; empty for another error."""
    for each in causes(error):
        name = str(each.filename or "") if isinstance(each, FileNotFoundError) else ""
        if name and not os.path.dirname(name) and shutil.which(name) is None:
            return name
    return ""


def causes(error: BaseException) -> list[BaseException]:
    """Lists the error and its causes, outermost first."""
    causes_found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in causes_found:
        causes_found.append(current)
        inner = getattr(current, "inner_exception", None)  # how Inductor's errors carry the real one
        current = inner if isinstance(inner, BaseException) else current.__cause__
    return causes_found
