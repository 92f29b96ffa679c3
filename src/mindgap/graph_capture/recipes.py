"""Makes recipes for captured tensors: their bytes, or seeded numbers with similar statistics."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import torch

from mindgap.aten.tensors import to_numpy
from mindgap.graph import Constant, Literal as LiteralBytes, Normal, Recipe, Stored, Uniform
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture.errors import NoValues
from mindgap.graph_capture.recording import RecordedInput

#: Up to this many bytes a tensor travels inside the graph.
SMALL: Final = 256
#: Integers describe structure (positions, indices), which no seeded numbers could stand for: kept inside up to this.
SMALL_INTEGERS: Final = 1 << 16


def recipe_for(
    source: RecordedInput, store: TensorStore | None, weights: Literal["stored", "seeded"], seed: int
) -> Recipe:
    """Returns the recipe of a captured tensor. Raises `NoValues` if it has none and `weights` is "stored"."""
    tensor = source.real
    assert tensor is not None
    if tensor.device.type == "meta":
        if weights == "stored":
            raise NoValues(source.name)
        return Normal(seed, 0.0, 0.02) if tensor.is_floating_point() else Constant(0)
    seeded = weights == "seeded" and source.role != "constant" and tensor.is_floating_point() and tensor.numel() > 0
    return _like(tensor, seed) if seeded else _bytes(tensor, store)


def _bytes(tensor: torch.Tensor, store: TensorStore | None) -> Recipe:
    array = to_numpy(tensor)
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    if array.nbytes <= (SMALL_INTEGERS if store is None and whole else SMALL) or store is None:
        return LiteralBytes(np.ascontiguousarray(array).tobytes())
    return Stored(store.put(array))


def _like(tensor: torch.Tensor, seed: int) -> Recipe:
    """Returns a uniform recipe for values that are never negative, a constant if all are equal, a normal one
    otherwise."""
    wide = tensor.detach().to(torch.float64)
    low, high = float(wide.min()), float(wide.max())
    if not np.isfinite([low, high]).all():
        return LiteralBytes(to_numpy(tensor).tobytes())
    if low == high:
        return Constant(low)
    if low >= 0:
        return Uniform(seed, low, high)
    return Normal(seed, float(wide.mean()), float(wide.std()) if tensor.numel() > 1 else abs(high))
