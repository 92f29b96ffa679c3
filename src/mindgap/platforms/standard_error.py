"""Keeps what native code prints on standard error: some compilers give their message there only."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

_CHUNK = 1 << 16
#: A program that the block has started and left running may keep the pipe open.
_JOIN_S = 1.0


@dataclass(slots=True)
class Printed:
    """What was printed, complete after the block."""

    raw: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        return self.raw.decode(errors="replace")


@contextmanager
def kept_standard_error() -> Generator[Printed]:
    """Keeps what this process and its children print in the block.

    Everything is passed on at once, so that the last words of a crash are not lost.
    """
    printed = Printed()
    sys.stderr.flush()
    real = os.dup(2)
    read, write = os.pipe()
    os.dup2(write, 2)
    os.close(write)

    def forward() -> None:
        while chunk := os.read(read, _CHUNK):
            printed.raw += chunk
            os.write(real, chunk)
        os.close(read)

    reader = threading.Thread(target=forward, name="standard error", daemon=True)
    reader.start()
    try:
        yield printed
    finally:
        sys.stderr.flush()
        os.dup2(real, 2)
        reader.join(_JOIN_S)
        if not reader.is_alive():
            os.close(real)
