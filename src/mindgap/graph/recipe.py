"""Defines recipes: how an input's bytes are made, equal on every machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Uniform:
    """Floats uniform in [low, high)."""

    seed: int
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal-like floats (a sum of uniforms): mean and standard deviation are exact, tails end at 6."""

    seed: int
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True, slots=True)
class Integers:
    """Integers uniform in [low, high)."""

    seed: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Permutation:
    """A permutation of 0 … n-1 along the last dimension, drawn anew for each row."""

    seed: int


@dataclass(frozen=True, slots=True)
class Constant:
    """One value everywhere."""

    value: bool | int | float | complex


@dataclass(frozen=True, slots=True)
class Literal:
    """The bytes themselves: little-endian, row-major."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor kept outside the graph in a `TensorStore`, by `tensor_key`."""

    key: str


@dataclass(frozen=True, slots=True)
class Exceptional:
    """Uniform in [-1, 1), with about `share` of the elements drawn from NaN, ±Inf, ±0, subnormals, extremes."""

    seed: int
    share: float = 0.25


Recipe = Uniform | Normal | Integers | Permutation | Constant | Literal | Stored | Exceptional
