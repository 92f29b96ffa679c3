"""Workers of platforms whose packages mindgap's own environment may lack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mindgap.platforms.listing import platform_info
from mindgap.run.pool import WorkerPool
from platforms.onnx_graphs import _store


@contextmanager
def workers(*platforms: str) -> Iterator[WorkerPool]:
    """A pool of workers. Skips the test, with the reason, where one of the platforms is not available."""
    for platform in platforms:
        info = platform_info(platform)
        if not info.available:
            pytest.skip(f"{platform}: {info.reason}")
    with WorkerPool(platforms, tensors=_store()) as pool:
        yield pool
