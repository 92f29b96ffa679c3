"""Reads what ExecuTorch's runtime prints on standard error: its exceptions have only the number of an error."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable


def printed_by(call: Callable[[], object]) -> str:
    """Makes a call that has failed once more, and returns what it prints on standard error.

    The first call prints to the worker's standard error, where a crash leaves its last words.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            with contextlib.suppress(Exception):
                call()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        printed.seek(0)
        return printed.read().decode(errors="replace")
