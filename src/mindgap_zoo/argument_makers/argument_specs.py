"""Describes tensors to draw as arguments of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mindgap.graph import Constant, Integers, Normal, Recipe, Uniform


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor to draw. `shape`: a word per dimension, a number or a name that the library's argument maker knows.

    `make`: from a seed to a recipe. `dtype`: empty for that of the model.
    """

    shape: str
    make: Callable[[int], Recipe] = Normal
    dtype: str = ""


def normal(shape: str, scale: float = 1.0) -> Tensor:
    return Tensor(shape, lambda seed: Normal(seed, 0.0, scale))


def uniform(shape: str, low: float = 0.0, high: float = 1.0) -> Tensor:
    return Tensor(shape, lambda seed: Uniform(seed, low, high))


def integers(shape: str, below: int, low: int = 0) -> Tensor:
    return Tensor(shape, lambda seed: Integers(seed, low, below), "int64")


def filled(shape: str, value: float, dtype: str = "int64") -> Tensor:
    return Tensor(shape, lambda _: Constant(value), dtype)


def zeros_and_ones(shape: str) -> Tensor:
    """Describes a mask of floats."""
    return Tensor(shape, lambda seed: Integers(seed, 0, 2))


def ones(shape: str, dtype: str = "int64") -> Tensor:
    """Describes a mask that hides nothing."""
    return filled(shape, True if dtype == "bool" else 1, dtype)
