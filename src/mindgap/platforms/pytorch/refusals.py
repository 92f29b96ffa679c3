"""Decides whether an error of PyTorch or its compilers is a refusal, and finds the operator that it names."""

from __future__ import annotations

import re
from typing import Final

from mindgap.platforms.messages import MessageRow, causes
from mindgap.platforms.pytorch.messages import TABLE

_QUALIFIED: Final = re.compile(r"\baten(?:::|\.)(\w+)(?:\.(\w+))?")
#: TorchScript's tracer prints the whole tensor that it lost.
_PRINTED_OUTPUT: Final = re.compile(r"^output \d+ \(.*?\) of traced region", re.DOTALL)


def refusal(error: BaseException) -> str | None:
    """Returns PyTorch's message of a refusal, on one line; None if `error` is no refusal."""
    error_found = refusing(error)
    return None if error_found is None else _line(message_of(error_found[1])) or type(error_found[1]).__name__


def refusing(error: BaseException) -> tuple[MessageRow, BaseException] | None:
    """Returns the row that makes the error a refusal, and the cause that it matches; None for a failure.

    Tries the innermost cause first, since outer errors quote it.
    """
    for cause in reversed(causes(error)):
        # A subclass counts as the classes that it derives from.
        for known in type(cause).__mro__:
            # The first lines alone: compilers append stacks that quote other errors.
            row = TABLE.find("\n".join(message_of(cause).splitlines()[:3]), known.__name__)
            if row is not None:
                return (row, cause) if row.kind == "refusal" else None
    return None


def message_of(error: BaseException) -> str:
    """Returns the error's message without the values of tensors."""
    return _PRINTED_OUTPUT.sub("output of traced region", str(error).strip())


def refused_operator(error: BaseException) -> str | None:
    """Returns the operator that a compiler's message names (`aten.foo.default`), None without one."""
    for cause in reversed(causes(error)):
        match = _QUALIFIED.search(str(cause))
        if match:
            return f"aten.{match[1]}.{match[2] or 'default'}"
    return None


def _line(text: str) -> str:
    first = next(iter(text.splitlines()), "").strip()
    for advice in (" This could be because", " You can turn off determinism"):
        first = first.partition(advice)[0]
    return first
