"""Gives a model of an image zoo seeded weights and seeded input tensors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from mindgap.sources.program import Built
from mindgap.sources.source import SourceOptions
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_zoo.argument_makers.argument_specs import Tensor, normal
from mindgap_zoo.weights.seeding import finished, seed_weights


def with_pictures(model: nn.Module, shapes: Sequence[tuple[int, ...]], chosen: SourceOptions) -> Built:
    """Returns the model with seeded weights and a normal image of each shape."""
    return with_arguments(model, [normal(" ".join(map(str, shape))) for shape in shapes], chosen)


def with_arguments(model: nn.Module, given: Sequence[Tensor], chosen: SourceOptions) -> Built:
    """Returns the model with seeded weights and seeded arguments, in the given order. Their shapes are numbers."""
    registry = TensorRegistry()
    seed_weights(model, chosen.seed, registry)
    dtype = chosen.dtype or "float32"
    tensors = tuple(
        registry.draw(
            one.make(seed_of(f"picture {index}", chosen.seed)), one.dtype or dtype, tuple(map(int, one.shape.split()))
        )
        for index, one in enumerate(given)
    )
    return finished(model, chosen, registry, tensors)
