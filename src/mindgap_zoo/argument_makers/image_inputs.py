"""Gives a model of an image zoo seeded weights and seeded input tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from mindgap.graph import Constant, Integers, Normal
from mindgap.sources.program import Built
from mindgap.sources.source import SourceOptions
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_zoo.weights.seeding import finished, seed_weights


@dataclass(frozen=True, slots=True)
class ImageArgument:
    """Describes an argument of an image model.

    Floating-point values are standard normal, as normalised images are. `every`: int64 values that all equal it.
    `mask`: floating-point zeros and ones.
    """

    shape: tuple[int, ...]
    every: int | None = None
    mask: bool = False


def with_pictures(model: nn.Module, shapes: Sequence[tuple[int, ...]], chosen: SourceOptions) -> Built:
    """Returns the model with seeded weights and a normal image of each shape."""
    return with_arguments(model, [ImageArgument(shape) for shape in shapes], chosen)


def with_arguments(model: nn.Module, given: Sequence[ImageArgument], chosen: SourceOptions) -> Built:
    """Returns the model with seeded weights and seeded arguments, in the given order."""
    registry = TensorRegistry()
    seed_weights(model, chosen.seed, registry)
    dtype = chosen.dtype or "float32"
    tensors = tuple(_argument(one, index, chosen.seed, registry, dtype) for index, one in enumerate(given))
    return finished(model, chosen, registry, tensors)


def _argument(given: ImageArgument, index: int, seed: int, registry: TensorRegistry, dtype: str) -> torch.Tensor:
    if given.every is not None:
        return registry.draw(Constant(given.every), "int64", given.shape)
    drawn = seed_of(f"picture {index}", seed)
    if given.mask:
        return registry.draw(Integers(drawn, 0, 2), dtype, given.shape)
    return registry.draw(Normal(drawn), dtype, given.shape)
