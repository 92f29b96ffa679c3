"""What the tests of reductions share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mindgap.graph import TensorStore
from mindgap.judge.pipeline.comparison import RunContext
from mindgap.results.settings import RunSettings
from mindgap.run.pool import WorkerPool


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunContext]:
    """Runs any platform; its workers live from test to test."""
    store = TensorStore(tmp_path_factory.mktemp("tensors"))
    with WorkerPool(["cpu/eager"], tensors=store, busy=1, grows=True, idle_s=60.0) as pool:
        yield RunContext(pool.run, RunSettings(), store, pool.describe)
