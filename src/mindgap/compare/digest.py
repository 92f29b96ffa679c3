"""The 128-bit digest and the sketch of one output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Sketch:
    """A summary that fits a table row. Counts are of elements (a complex number counts once);
    the moments are over finite elements, in float64; `sample` is a fixed choice of elements."""

    nan: int
    pos_inf: int
    neg_inf: int
    zero: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    norm: float | None
    sample: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Digested:
    """One output, by its identity: equal digests mean equal dtype, shape and bytes (NaN payloads canonical)."""

    dtype: str
    shape: tuple[int, ...]
    digest: str
    sketch: Sketch
