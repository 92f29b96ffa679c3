"""Derives sets of arguments that real data has and random numbers have not: constant areas, large channels, repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from mindgap.graph import Array

#: The arguments of a program by name.
Arguments = Mapping[str, Array]
#: How much larger the values of one channel are. Trained language models have such channels (Sun et al., 2024).
_LARGE: Final = 100.0
#: Of images that torchvision normalises: mean and standard deviation by channel.
_MEAN, _STD = np.array(((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))[:, :, None, None]


def _is_tokens(array: Array) -> bool:
    return array.dtype.kind in "iu" and array.ndim > 0 and not np.isin(array, (0, 1)).all()


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" and array.ndim > 0


def _rows(array: Array) -> int:
    """The dimension of rows: of pictures their height, of sequences and tokens their length."""
    return array.ndim - 2 if _is_float(array) and array.ndim > 2 else min(1, array.ndim - 1)


def _constant_area(array: Array) -> Array:
    made, half = array.copy(), array.shape[_rows(array)] // 2
    part = np.moveaxis(made, _rows(array), 0)[: max(half, 1)]
    part[...] = part.mean(dtype=np.float64)
    return made


def _large_channel(array: Array) -> Array:
    made = array.copy()
    np.moveaxis(made, 1 if array.ndim == 4 else -1, 0)[0] *= _LARGE
    return made


def _picture(array: Array) -> Array:
    """A ramp from black to white, normalised as pictures are."""
    if array.ndim != 4 or array.shape[1] != 3:
        return array
    ramp = np.linspace(0.0, 1.0, array[0, 0].size).reshape(array.shape[2:])
    return np.broadcast_to((ramp - _MEAN) / _STD, array.shape).astype(array.dtype)


def _padded(array: Array) -> Array:
    """The last half of the rows is padding: zero in tokens, in masks and in floats."""
    made = array.copy()
    np.moveaxis(made, _rows(array), 0)[(array.shape[_rows(array)] + 1) // 2 :] = 0
    return made


#: How sets are made, by name: what an argument must be, and what it becomes.
DERIVED: Final[Mapping[str, tuple[Callable[[Array], bool], Callable[[Array], Array]]]] = {
    "constant_area": (lambda a: _is_float(a) and a.ndim > 1, _constant_area),
    "zeros": (_is_float, np.zeros_like),
    "large_channel": (_is_float, _large_channel),
    "times_8": (_is_float, lambda a: a * a.dtype.type(8)),
    "picture": (_is_float, _picture),
    "sorted": (lambda a: _is_float(a) or _is_tokens(a), lambda a: np.sort(a, axis=-1)),
    "repeated_tokens": (_is_tokens, lambda a: np.full_like(a, a.flat[0] if a.size else 0)),
    "padded_rows": (lambda a: a.ndim > 0 and a.size > 1 and a.shape[_rows(a)] > 1, _padded),
}


def derived_sets(given: Arguments) -> dict[str, dict[str, Array]]:
    """Returns the given arguments as `given`, and the sets derived from them that differ from it, by name."""
    sets: dict[str, dict[str, Array]] = {"given": dict(given)}
    for name, (applies, change) in DERIVED.items():
        made = {key: np.ascontiguousarray(change(a)) if applies(a) else a for key, a in given.items()}
        if any(made[key].tobytes() != given[key].tobytes() for key in given):
            sets[name] = made
    return sets


def standard_normal(given: Arguments) -> bool:
    """Whether all float arguments look drawn from the standard normal distribution: mean 0 and deviation 1 within four
    standard errors, of at least 32 numbers."""
    floats: list[Any] = [a.astype(np.float64) for a in given.values() if _is_float(a)]
    return bool(floats) and all(
        a.size >= 32 and abs(a.mean()) < 4 / a.size**0.5 and abs(a.std() - 1) < 4 / (2 * a.size) ** 0.5 for a in floats
    )
