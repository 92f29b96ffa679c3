"""Makes values with structure (sorted, distinct, positive definite …) as exact bytes, equal on every machine."""

from __future__ import annotations

import math

import numpy as np

from mindgap.graph import Array, Constant, Integers, Literal, Permutation, Recipe, TensorSpec, numpy_dtype
from mindgap.graph.draws import generator
from mindgap_campaign.synth.values.constraints import INF, ValueConstraint


def structured_recipe(spec: TensorSpec, need: ValueConstraint, seed: int, most_bytes: int) -> Recipe | None:
    """Chooses a recipe for values of the constraint's form and range; None if there is none.

    Tensors of more than `most_bytes` get one that needs no bytes: equal values where a sequence is to rise.
    """
    if spec.kind not in ("int", "float"):
        return None
    if need.form == "distinct":
        return _distinct(spec, need, seed, most_bytes)
    if 0 in spec.stride and spec.numel > 1:
        return None  # elements share memory
    if need.form in ("sorted", "offsets"):
        return _rising(spec, need, seed, most_bytes)
    if len(spec.shape) < 2 or spec.nbytes > most_bytes or spec.kind != "float":
        return None
    if need.form == "regular" and spec.shape[-2] != spec.shape[-1]:
        return None  # it is reshaped to something square: any values in general position will do
    return _bytes(spec, _matrices(need.form, spec.shape, seed))


def _distinct(spec: TensorSpec, need: ValueConstraint, seed: int, most_bytes: int) -> Recipe | None:
    """Makes all numbers of the tensor distinct, if there are that many; else those of each row."""
    allowed, count = int(need.high) + 1 if need.high < INF else spec.numel, spec.numel
    length = spec.shape[-1] if spec.shape else 1
    if count <= 1 or allowed < 1 or spec.kind != "int" or 0 in spec.stride:
        return None
    if length == count <= allowed and spec.stride[-1] != 0:
        return Permutation(seed)
    if count <= allowed and spec.nbytes <= most_bytes:
        return _bytes(spec, _draws(seed, count).argsort(kind="stable").reshape(spec.shape))
    return Integers(seed, 0, allowed)


def _rising(spec: TensorSpec, need: ValueConstraint, seed: int, most_bytes: int) -> Recipe:
    """Makes values sorted along the last dimension; offsets start at 0."""
    first = max(need.low, -4.0) if spec.kind == "float" else max(need.low, 0.0)
    last = min(need.high, 4.0 if spec.kind == "float" else max(first, 63.0)) if need.form == "sorted" else need.high
    if spec.nbytes > most_bytes or last <= first or last == INF:
        return Constant(0.0 if spec.kind == "float" else int(first))
    drawn = _draws(seed, spec.numel).reshape(spec.shape) * (last - first) + first
    ordered: Array = np.sort(drawn, axis=-1) if spec.shape else drawn
    if spec.kind == "int":
        ordered = np.floor(ordered)
    if need.form == "offsets" and spec.shape:
        ordered[..., 0] = 0
    return _bytes(spec, ordered)


def _matrices(form: str, shape: tuple[int, ...], seed: int) -> Array:
    """Makes matrices of multiples of 2⁻⁶; square ones are diagonally dominant, so that factorisations exist."""
    rows, columns = shape[-2:]
    wide = math.prod(shape)
    scale = 32 / math.sqrt(max(columns, 1))
    small: Array = np.round((_draws(seed, wide).reshape(shape) - 0.5) * scale) / 64
    offsets = np.arange(rows)[:, None] - np.arange(columns)
    diagonal: Array = np.where(offsets == 0, 1.0 + 0.25 * (np.arange(columns) % 3), 0.0)
    if form == "lower":
        return np.asarray(np.where(offsets > 0, small, 0.0) + diagonal)
    if form == "upper":
        return np.where(offsets < 0, small, 0.0) + diagonal
    if form == "spd" and rows == columns:
        small = (small + small.swapaxes(-1, -2)) / 2
    return small + diagonal * _reach(small)


def _reach(small: Array) -> float:
    """Returns a bound on the sum of absolute elements of any row."""
    return float(np.ceil(np.abs(small).sum(-1).max())) + 1.0 if small.size else 1.0


def _draws(seed: int, count: int) -> Array:
    """Draws multiples of 2⁻⁵³ in [0, 1)."""
    return (generator(seed).random_raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _bytes(spec: TensorSpec, values: Array) -> Literal:
    return Literal(np.ascontiguousarray(values.astype(numpy_dtype(spec.dtype))).tobytes())
