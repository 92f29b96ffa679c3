"""Keeps standard output for results, whatever a user's module or a library prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO


@contextmanager
def result_stream() -> Generator[TextIO]:
    """Yields the real standard output, and redirects descriptor 1 to standard error meanwhile."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    result = os.fdopen(kept, "w", encoding="utf-8", closefd=False)
    try:
        # Where something has replaced `sys.stdout`, the descriptor alone would not catch what Python prints.
        with redirect_stdout(sys.stderr):
            yield result
    finally:
        try:
            result.flush()
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def complain(message: str) -> None:
    """Prints one line on standard error."""
    print("mindgap: " + " ".join(message.split()), file=sys.stderr)  # noqa: T201
