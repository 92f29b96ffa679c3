"""Limits the size of the user's tensor store. The least recently used files go first, and none that is in use.

A tensor's file has the time of its last use as its modification time. A process that uses the store holds a lock on a
file there, `.use-PID-RANDOM`, from before its first use to its end. So what is older than the oldest of these
files that is locked is used by no running process.
"""

from __future__ import annotations

import atexit
import math
import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.graph.errors import MindgapError

#: The environment variable with the limit, in GiB.
LIMIT: Final = "MINDGAP_CACHE_GIB"
_DEFAULT_GIB: Final = 20.0
_USE: Final = ".use-"
#: A temporary file that is older was left behind by a killed process.
_LEFT_BEHIND_S: Final = 3600.0
#: The lock that this process holds in each directory: released when the process ends in any way.
_held: dict[Path, int] = {}


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """The tensors in a store: how many, their bytes, the limit in bytes, and how many processes use the store."""

    files: int
    nbytes: int
    limit: int
    processes: int


def limit_bytes() -> int:
    """Returns the limit of the user's store in bytes. Raises `MindgapError` for a value that is no number of GiB."""
    text = os.environ.get(LIMIT, "")
    try:
        gib = float(text) if text else _DEFAULT_GIB
    except ValueError:
        gib = math.nan
    if not 0 <= gib < math.inf:
        raise MindgapError(f"{LIMIT}={text}: it takes a number of GiB, as in {LIMIT}=20")
    return int(gib * (1 << 30))


def use(folder: Path) -> None:
    """Keeps what this process uses from now on, until it ends; then trims the store.

    A directory that cannot be written to is not trimmed. Raises `MindgapError` for a bad limit.
    """
    limit_bytes()
    if folder in _held:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        while (handle := _locked_file(folder)) is None:
            pass
        if not _held:
            atexit.register(_end)
        _held[folder] = handle


def usage(folder: Path) -> CacheUsage:
    """Counts what a store holds. Raises `MindgapError` for a bad limit."""
    files = _tensors(folder)
    return CacheUsage(len(files), sum(size for _, size, _ in files), limit_bytes(), len(_uses(folder)))


def trim(folder: Path, limit: int) -> int:
    """Removes tensors until the store has at most `limit` bytes. Keeps what a running process uses.

    Returns how many bytes it removed.
    """
    uses = _uses(folder)
    oldest_use = min(uses, default=math.inf)
    tensors = sorted(_tensors(folder))
    total = sum(size for _, size, _ in tensors)
    removed = 0
    for used, size, file in tensors:
        if total - removed <= limit or used >= oldest_use:
            break
        with suppress(OSError):
            # Once more: another process may have used it since.
            if file.stat().st_mtime_ns == used:
                file.unlink()
                removed += size
    _remove_temporary(folder)
    return removed


def _end() -> None:
    """Releases this process's locks and trims the stores that it used."""
    while _held:
        folder, handle = _held.popitem()
        with suppress(OSError, MindgapError):
            os.close(handle)
            trim(folder, limit_bytes())


def _locked_file(folder: Path) -> int | None:
    """Makes and locks a file of this process. None where another process took it for a leftover meanwhile."""
    file = folder / f"{_USE}{os.getpid()}-{secrets.token_hex(4)}"
    handle = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    if _lock(handle) and file.exists():
        return handle
    os.close(handle)
    return None


def _tensors(folder: Path) -> list[tuple[int, int, Path]]:
    """Lists (time of the last use in ns, bytes, file)."""
    tensors: list[tuple[int, int, Path]] = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".safetensors"):
                with suppress(FileNotFoundError):
                    about = entry.stat()
                    tensors.append((about.st_mtime_ns, about.st_size, Path(entry.path)))
    return tensors


def _uses(folder: Path) -> list[int]:
    """Returns since when each running process uses the store, in ns. Removes the files of processes that ended."""
    times: list[int] = []
    for file in folder.glob(f"{_USE}*"):
        with suppress(OSError):
            handle = os.open(file, os.O_RDWR)
            try:
                if _lock(handle):
                    file.unlink()
                else:
                    times.append(os.fstat(handle).st_mtime_ns)
            finally:
                os.close(handle)
    return times


def _lock(handle: int) -> bool:
    """Locks an open file until it is closed. Returns False where another process has it locked."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_temporary(folder: Path) -> None:
    """Removes temporary files that killed processes left."""
    for file in folder.glob(".put-*"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _LEFT_BEHIND_S:
                file.unlink()
