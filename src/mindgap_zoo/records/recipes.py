"""Makes recipes for the tensors of a record from its statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mindgap.graph import Constant, Integers, Literal, Normal, Recipe, Uniform, kind_of, numpy_dtype

Entry = Mapping[str, Any]

#: A tensor with more elements is drawn uniform: a twelfth of the work, and the same mean and deviation.
_NORMAL_UP_TO = 1 << 14


def record_recipe(entry: Entry, seed: int, tame: bool) -> Recipe:
    """Returns the recipe for one recorded tensor: its values if the record has them, else its statistics.

    `tame`: use the scales of an initialised network instead, for records whose outputs explode.
    """
    dtype, shape = str(entry["dtype"]), tuple(entry["shape"])
    if entry["data"] is not None:
        values = np.asarray(entry["data"], dtype=np.float64 if kind_of(dtype) == "float" else np.int64)
        return Literal(values.reshape(shape).astype(numpy_dtype(dtype)).tobytes())
    if kind_of(dtype) == "bool":
        return Constant(True)
    if kind_of(dtype) == "int":
        low, high = int(entry.get("min") or 0), entry.get("max")
        return Integers(seed, low, max(low + 1, int(high) + 1 if high is not None else low + 2))
    mean, std = _finite(entry["mean"], 0.0), abs(_finite(entry["std"], 1.0))
    if not shape:
        return Constant(mean)
    if tame:
        return _moderate_scale(entry, shape, mean, seed)
    if entry.get("min") == 0:
        centre = max(mean, 1e-3)
        return Uniform(seed, 0.05 * centre, 1.95 * centre)
    if entry["kind"] == "input":
        if std == 0.0:
            return Normal(seed) if _is_picture(shape) else Constant(mean)
    else:
        std = max(std, 0.05 * abs(mean), _least_deviation(shape))
    if math.prod(shape) <= _NORMAL_UP_TO:
        return Normal(seed, mean, std)
    return Uniform(seed, mean - math.sqrt(3) * std, mean + math.sqrt(3) * std)


def scalar_value(entry: Entry) -> float:
    """Returns the Python number that the record holds as a 0-dimensional tensor.

    The record rounds to three decimals, so that an epsilon reads 0. It becomes 1e-6, or 1e-8 if its six-decimal value
    is 0 too.
    """
    epsilon = "eps" in str(entry.get("original_name", "")).lower()
    data = entry["data"]
    if data is None:
        value = _finite(entry["mean"], 0.0)
        return 1e-6 if value == 0.0 and epsilon else value
    value = float(data[0])
    return 1e-8 if value == 0.0 and epsilon else value


def _is_picture(shape: tuple[int, ...]) -> bool:
    """Whether a constant tensor is an image. A blank image exercises nothing in a network; a mask of ones is meant
    to be one."""
    return len(shape) >= 4 and min(shape[-2:]) >= 16


def _least_deviation(shape: tuple[int, ...]) -> float:
    """Returns a lower bound for a recorded deviation. It is rounded to 0.001, and a weight of zeros would cut the
    network in two."""
    return 0.02 if len(shape) == 1 else 0.3 / math.sqrt(max(math.prod(shape[1:]), 1))


def _moderate_scale(entry: Entry, shape: tuple[int, ...], mean: float, seed: int) -> Recipe:
    if entry["kind"] == "input":
        return Normal(seed)
    if entry.get("min") == 0:
        return Uniform(seed, 0.5, 1.5)
    if len(shape) == 1 or math.prod(shape) == max(shape):
        gain = mean > 0.3 or str(entry.get("path", "")).endswith(("weight", "gamma"))
        return Uniform(seed, 0.8, 1.2) if gain else Uniform(seed, -0.1, 0.1)
    half = math.sqrt(3 / math.prod(shape[1:]))
    return Uniform(seed, -half, half)


def _finite(value: Any, otherwise: float) -> float:
    """Returns a recorded statistic, or `otherwise` if it is missing, NaN or infinite."""
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    return otherwise
