"""Smoke tests of storages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mindgap.aten.torch_private.fake_tensors import lazy_clone, storage_id


def test_views_share_a_storage_and_copies_do_not() -> None:
    x = torch.arange(6.0)
    assert storage_id(x) == storage_id(x[2:].view(2, 2))
    assert storage_id(x) != storage_id(x.clone())


def test_a_lazy_clone_keeps_its_values_when_the_original_is_written() -> None:
    x = torch.arange(6.0)
    copy = lazy_clone(x)
    x.add_(1)
    assert copy.tolist() == [0, 1, 2, 3, 4, 5]
    assert x.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("memory", ["numpy", "file"])
def test_memory_that_pytorch_did_not_allocate_is_copied(memory: str, tmp_path: Path) -> None:
    """Weights of safetensors files are mapped."""
    np.ones(4, np.float32).tofile(tmp_path / "ones")
    x = (
        torch.from_file(str(tmp_path / "ones"), size=4)
        if memory == "file"
        else torch.from_numpy(np.ones(4, np.float32))
    )
    copy = lazy_clone(x)
    x.zero_()
    assert copy.tolist() == [1.0] * 4 and copy.data_ptr() != x.data_ptr()
