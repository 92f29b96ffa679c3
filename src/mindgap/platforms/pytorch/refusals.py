"""Decides whether an error of PyTorch or its compilers is a refusal, and finds the operator that it names."""

from __future__ import annotations

import re
from typing import Final

from mindgap.platforms.messages import MessageRow
from mindgap.platforms.pytorch.messages import TABLE

_QUALIFIED: Final = re.compile(r"\baten(?:::|\.)(\w+)(?:\.(\w+))?")
#: TorchScript's tracer prints the whole tensor that it lost.
_PRINTED_OUTPUT: Final = re.compile(r"^output \d+ \(.*?\) of traced region", re.DOTALL)


def refusal(error: BaseException) -> str | None:
    """Why the platform refuses, in PyTorch's words, on one line; None where `error` is no refusal."""
    found = refusing(error)
    return None if found is None else _line(message_of(found[1])) or type(found[1]).__name__


def refusing(error: BaseException) -> tuple[MessageRow, BaseException] | None:
    """The row that makes the error a refusal, and which of its causes the row is for; None for a failure.

    Looks at the innermost cause first, for what wraps it quotes it.
    """
    for cause in reversed(causes(error)):
        # A subclass counts as the classes that it derives from.
        for known in type(cause).__mro__:
            row = TABLE.find(_head(message_of(cause)), known.__name__)
            if row is not None:
                return (row, cause) if row.kind == "refusal" else None
    return None


def message_of(error: BaseException) -> str:
    """The error's message without the values of tensors."""
    return _PRINTED_OUTPUT.sub("output of traced region", str(error).strip())


def refused_operator(error: BaseException) -> str | None:
    """The operator that a compiler's message names (`aten.foo.default`), None where it names none."""
    for cause in reversed(causes(error)):
        found = _QUALIFIED.search(str(cause))
        if found:
            return f"aten.{found[1]}.{found[2] or 'default'}"
    return None


def causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, outermost first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        inner = getattr(current, "inner_exception", None)  # how Inductor's errors carry the real one
        current = inner if isinstance(inner, BaseException) else current.__cause__
    return found


def _head(text: str) -> str:
    """The first lines: compilers append stacks that quote other errors."""
    return "\n".join(text.splitlines()[:3])


def _line(text: str) -> str:
    first = next(iter(text.splitlines()), "").strip()
    for advice in (" This could be because", " You can turn off determinism"):
        first = first.partition(advice)[0]
    return first
