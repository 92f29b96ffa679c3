"""Facts of the machine that workers run on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil


def memory_bytes() -> int:
    """Returns the bytes of memory of this machine, or of the container around this process."""
    total = int(psutil.virtual_memory().total)
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total
