"""Smoke test of the memory format that strides amount to."""

from __future__ import annotations

import torch

from mindgap.aten.torch_private.fake_tensors import suggest_memory_format


def test_strides_of_images_are_told_apart() -> None:
    image = torch.zeros(2, 3, 4, 5)
    assert suggest_memory_format(image) == torch.contiguous_format
    assert suggest_memory_format(image.to(memory_format=torch.channels_last)) == torch.channels_last
