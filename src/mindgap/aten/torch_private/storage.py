"""Storages: the identity of a tensor's memory, and copies that share memory until one of them is written to."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable

import torch


def storage_id(tensor: torch.Tensor) -> int:
    """Returns the address of the tensor's storage object: equal for tensors that share memory, while they live.

    Raises `RuntimeError` or `NotImplementedError` for layouts without storage.
    """
    return tensor.untyped_storage()._cdata


def lazy_clone(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy whose memory is duplicated when either tensor is first written to."""
    clone: Callable[[torch.Tensor], torch.Tensor] = vars(torch)["_lazy_clone"]
    return clone(tensor)
