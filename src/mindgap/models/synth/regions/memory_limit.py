"""Limits the memory that this process may allocate for a while."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def bounded(more: int) -> Generator[None]:
    """Limits the process to `more` bytes beyond its current memory, where the system supports it (Linux)."""
    if sys.platform != "linux":
        yield
        return
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = now + more if soft == resource.RLIM_INFINITY else min(now + more, soft)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
