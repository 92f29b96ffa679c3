"""Keeps what native code prints on a standard stream: some compilers give their message there only."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
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


def kept_standard_error(*, passed_on: bool = True) -> AbstractContextManager[Printed]:
    """Keeps what this process and its children print on standard error in the block.

    Everything is passed on at once, so that the last words of a crash are not lost, save where `passed_on` is False.
    """
    return _kept(2, passed_on)


def kept_standard_output() -> AbstractContextManager[Printed]:
    """Does the same for standard output, which in a worker goes to standard error."""
    return _kept(1, True)


@contextmanager
def _kept(descriptor: int, passed_on: bool) -> Generator[Printed]:
    printed, stream = Printed(), sys.stderr if descriptor == 2 else sys.stdout
    stream.flush()
    real = os.dup(descriptor)
    read, write = os.pipe()
    os.dup2(write, descriptor)
    os.close(write)

    def forward() -> None:
        while chunk := os.read(read, _CHUNK):
            printed.raw += chunk
            if passed_on:
                os.write(real, chunk)
        os.close(read)

    reader = threading.Thread(target=forward, name="kept stream", daemon=True)
    reader.start()
    try:
        yield printed
    finally:
        stream.flush()
        os.dup2(real, descriptor)
        reader.join(_JOIN_S)
        if not reader.is_alive():
            os.close(real)
