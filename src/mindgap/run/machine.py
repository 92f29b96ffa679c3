"""Memory of the machine that workers run on, and of processes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def memory_bytes() -> int:
    """Returns the bytes of memory of this machine, or of the container around this process."""
    import psutil

    total = int(psutil.virtual_memory().total)
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


def own_bytes(pid: int | str) -> int:
    """Returns the resident bytes of a process that no file backs, shared memory included. Elsewhere than on Linux: all
    its resident bytes. 0 if it has ended."""
    try:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024
    except (OSError, KeyError, ValueError):
        # Workers in other environments have no psutil.
        with suppress(ImportError, ValueError):
            import psutil

            with suppress(psutil.Error):
                return int(psutil.Process(None if pid == "self" else int(pid)).memory_info().rss)
    return 0
