"""Gives a failure of the compiler that tinygrad calls its message, which the compiler prints on standard error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from mindgap.platforms.standard_error import kept_standard_error


class CompilerError(Exception):
    """The compiler does not take the code that tinygrad wrote. The message is the compiler's first error."""


@contextmanager
def compiler_errors() -> Generator[None]:
    """Raises `CompilerError` for a compiler that failed in the block."""
    failed: subprocess.CalledProcessError | None = None
    with kept_standard_error() as printed:
        try:
            yield
        except subprocess.CalledProcessError as error:
            failed = error
    if failed is not None:
        lines = printed.text.splitlines()
        first = next((line.partition("error: ")[2] for line in lines if "error: " in line), str(failed))
        raise CompilerError(f"{os.path.basename(str(failed.cmd[0]))}: {first}") from failed
