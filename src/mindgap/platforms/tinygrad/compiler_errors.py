"""Gives a failure of the compiler that tinygrad calls its message, which the compiler prints on standard error."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager


class CompilerError(Exception):
    """The compiler does not take the code that tinygrad wrote. The message is the compiler's first error."""


@contextmanager
def compiler_errors() -> Generator[None]:
    """Raises `CompilerError` for a compiler that failed in the block. What was printed in it is printed behind it."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        failed: subprocess.CalledProcessError | None = None
        try:
            yield
        except subprocess.CalledProcessError as error:
            failed = error
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            printed.seek(0)
            text = printed.read()
            os.write(2, text)
        if failed is not None:
            lines = text.decode(errors="replace").splitlines()
            first = next((line.partition("error: ")[2] for line in lines if "error: " in line), str(failed))
            raise CompilerError(f"{os.path.basename(str(failed.cmd[0]))}: {first}") from failed
