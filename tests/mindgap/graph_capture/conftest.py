"""One thread, and a tensor store of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mindgap.graph.tensors import TensorStore


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def store(tmp_path: Path) -> TensorStore:
    return TensorStore(tmp_path / "tensors")
