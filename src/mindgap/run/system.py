"""Reads memory and processes from Linux. Workers in environments without psutil import this."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
#: The lines of /proc/PID/status with the resident KiB that no file backs.
_ANONYMOUS: Final = (b"\nRssAnon:", b"\nRssShmem:")


def die_with(parent: int) -> None:
    """Has the kernel kill this process when the thread of `parent` ends that started it. Elsewhere than on Linux
    nothing happens, unless the parent has ended already."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def memory_bytes() -> int:
    """Returns the bytes of memory of this machine, or of the container around this process."""
    import psutil

    total = int(psutil.virtual_memory().total)
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


def remove_leftovers(parent: Path, prefix: str) -> None:
    """Removes directories `PREFIX` `PID` `-…` of processes that have ended."""
    import psutil

    for old in parent.glob(f"{prefix}*"):
        pid = old.name.removeprefix(prefix).split("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(old, ignore_errors=True)


def own_bytes(pid: int | str) -> int:
    """Returns the resident bytes of a process that no file backs, shared memory included. Elsewhere than on Linux: all
    its resident bytes. 0 if it has ended."""
    try:
        # Read after every job: the other lines of the file are not taken apart.
        with open(f"/proc/{pid}/status", "rb", 0) as file:
            status = file.read()
        return sum(int(status[status.index(name) + len(name) :].split(None, 1)[0]) for name in _ANONYMOUS) * 1024
    except (OSError, ValueError):
        # Workers in other environments have no psutil.
        with contextlib.suppress(ImportError, ValueError):
            import psutil

            with contextlib.suppress(psutil.Error):
                return int(psutil.Process(None if pid == "self" else int(pid)).memory_info().rss)
    return 0
