"""Computes distances between two arrays in the metrics that the literature uses.

Every corner is decided in docs/metrics.md; the words below are short for its sections.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from mindgap.graph import Array, dtype_name, kind_of
from mindgap.graph.compare.digest import widened

Mask = np.ndarray[Any, np.dtype[np.bool_]]

#: Stored mantissa bits, the remaining precision of equal values.
MANTISSA_BITS: Final[Mapping[str, int]] = {
    "float64": 52,
    "float32": 23,
    "float16": 10,
    "bfloat16": 7,
    "float8_e4m3fn": 3,
    "float8_e4m3fnuz": 3,
    "float8_e5m2": 2,
    "float8_e5m2fnuz": 2,
    "complex64": 23,
    "complex128": 52,
}


@dataclass(frozen=True, slots=True)
class Metrics:
    """Two arrays of one dtype and shape, compared.

    `n`, `n_differing` and the three mismatches count elements; NaN against NaN never differs, −0 against +0
    does. `max_abs` (an int for integers), `max_rel` (to the reference), `max_ulp`, `cosine` and `mad` (mean
    absolute distance) are over the pairs in which both are finite, and None where there is no such pair;
    `max_ulp` and `remaining_precision` (bits) are None for integers and booleans. The flips count rows of the
    last dimension, None where the dtype is not floating or there are fewer than 2 (6) classes.
    """

    n: int
    n_differing: int
    max_abs: float | int | None
    max_rel: float | None
    max_ulp: int | None
    remaining_precision: int | None
    cosine: float | None
    mad: float | None
    nan_mismatch: int
    inf_mismatch: int
    signed_zero_mismatch: int
    top1_flips: int | None
    top5_flips: int | None


@dataclass(frozen=True, slots=True)
class StructuralMismatch:
    """There are no distances between these: dtype or shape differ. Each side as `dtype[shape]`."""

    reference: str
    other: str


def measure(reference: Array, other: Array) -> Metrics | StructuralMismatch:
    """Compares two arrays of any graph dtype, native byte order. Complex numbers are taken part by part."""
    if reference.dtype != other.dtype or reference.shape != other.shape:
        return StructuralMismatch(_described(reference), _described(other))
    kind = kind_of(dtype_name(reference.dtype))
    return _measure_exact(reference, other) if kind in ("int", "bool") else _measure_floating(reference, other)


def distance(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """Returns how far two lists of outputs are apart: the largest difference in an output by its largest magnitude.

    Infinity for another number, shape or dtype of outputs, and where an element is NaN or infinite on one side and
    another value on the other: finite, another infinity, infinite and not NaN. Complex numbers are so by their parts.
    """
    if [(a.shape, a.dtype) for a in ours] != [(a.shape, a.dtype) for a in theirs]:
        return math.inf
    return max((_relative_distance(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)


def _relative_distance(ours: Array, theirs: Array) -> float:
    if ours.size == 0 or ours.tobytes() == theirs.tobytes():
        return 0.0
    wide = np.complex128 if np.iscomplexobj(ours) else np.float64
    a, b = ours.astype(wide), theirs.astype(wide)
    special = not_finite(a)
    if not np.array_equal(special, not_finite(b)):
        return math.inf
    finite = special == 0
    magnitude = float(np.abs(b[finite]).max(initial=0.0)) or 1.0
    if ours.dtype.kind in "iu":  # float64 does not hold all integers of 64 bits
        # Arrays wrap in silence, and scalars warn.
        ours, theirs = np.atleast_1d(ours, theirs)
        gaps = np.maximum(ours, theirs).astype(np.uint64) - np.minimum(ours, theirs).astype(np.uint64)
        return float(gaps.max()) / magnitude
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / magnitude


def not_finite(x: Array) -> Array:
    """Returns what is not finite, by element: 2 for NaN, 1 and -1 for infinities, 0 for finite values.

    Of complex numbers both parts as one number.
    """
    if np.iscomplexobj(x):
        parts = np.ascontiguousarray(x, np.complex128).view(np.float64).reshape(*x.shape, 2)
        return not_finite(parts) @ np.array([4, 1])
    wide = x.astype(np.float64)
    return np.where(np.isnan(wide), 2, np.where(np.isinf(wide), np.sign(wide), 0))


def to_json(found: Metrics | StructuralMismatch) -> dict[str, Any]:
    """The fields under their names, as JSON has them: an infinite distance is the string `"inf"`."""
    return {key: "inf" if value == math.inf else value for key, value in asdict(found).items()}


def ordered(parts: Array) -> Array:
    """Floats as int64 in which order and distance are those of the format's representable values.

    Both zeros are 0, so that neighbours are 1 apart everywhere, across zero and powers of two as well.
    NaNs land beyond the infinities and mean nothing.
    """
    width = parts.dtype.itemsize * 8
    bits = parts.view(f"i{parts.dtype.itemsize}").astype(np.int64)
    magnitude = bits & np.int64((1 << (width - 1)) - 1)
    return np.where(bits < 0, -magnitude, magnitude)


def remaining_precision(bits: int, distance: int) -> int:
    """Mantissa bits that still agree: `bits` less the length of the ULP distance in binary, at least 0."""
    return max(0, bits - distance.bit_length())


def _described(a: Array) -> str:
    try:
        name = dtype_name(a.dtype)
    except KeyError:
        name = str(a.dtype)
    return f"{name}[{','.join(map(str, a.shape))}]"


def _flat(a: Array) -> Array:
    """Contiguous and one-dimensional; the parts of complex numbers side by side."""
    flat = np.ascontiguousarray(a).reshape(-1)
    return flat.view(f"f{a.dtype.itemsize // 2}") if a.dtype.kind == "c" else flat


def _gap(a: Array, b: Array) -> Array:
    """|a − b| of int64 as uint64: exact, since the wrapped difference of larger and smaller is the true one."""
    larger, smaller = np.maximum(a, b), np.minimum(a, b)
    return larger.view(np.uint64) - smaller.view(np.uint64)


def _measure_exact(reference: Array, other: Array) -> Metrics:
    """Integers and booleans: true differences, no overflow."""
    a, b = _flat(reference), _flat(other)
    gap = np.maximum(a, b) - np.minimum(a, b) if a.dtype == np.uint64 else _gap(a.astype(np.int64), b.astype(np.int64))
    distance, wide = gap.astype(np.float64), a.astype(np.float64)
    return Metrics(
        n=a.size,
        n_differing=int(np.count_nonzero(gap)),
        max_abs=int(gap.max()) if a.size else None,
        max_rel=_max_relative(distance, wide),
        max_ulp=None,
        remaining_precision=None,
        cosine=_cosine(wide, b.astype(np.float64)),
        mad=float(distance.mean()) if a.size else None,
        nan_mismatch=0,
        inf_mismatch=0,
        signed_zero_mismatch=0,
        top1_flips=None,
        top5_flips=None,
    )


def _measure_floating(reference: Array, other: Array) -> Metrics:
    name = dtype_name(reference.dtype)
    per = 2 if kind_of(name) == "complex" else 1
    raw_a, raw_b = _flat(reference), _flat(other)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        a, b = widened(raw_a).astype(np.float64), widened(raw_b).astype(np.float64)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    nan_off = nan_a != nan_b
    inf_off = ~(nan_a | nan_b) & (np.isinf(a) | np.isinf(b)) & (a != b)
    sign_off = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    both = np.isfinite(a) & np.isfinite(b)
    steps = _gap(ordered(raw_a), ordered(raw_b))
    differs = nan_off | inf_off | sign_off | (both & (steps != 0))
    farthest = int(steps[both].max()) if both.any() else None
    broken = bool((nan_off | inf_off).any())
    fa, fb = a[both], b[both]
    with np.errstate(over="ignore"):
        distance = np.abs(fa - fb)
    flips = _flips(reference, other) if per == 1 else {}
    return Metrics(
        n=reference.size,
        n_differing=_elements(differs, per),
        max_abs=float(distance.max()) if distance.size else None,
        max_rel=_max_relative(distance, fa),
        max_ulp=farthest,
        remaining_precision=0 if broken else remaining_precision(MANTISSA_BITS[name], farthest or 0),
        cosine=_cosine(fa, fb),
        mad=_mean(distance),
        nan_mismatch=_elements(nan_off, per),
        inf_mismatch=_elements(inf_off, per),
        signed_zero_mismatch=_elements(sign_off, per),
        top1_flips=flips.get(1),
        top5_flips=flips.get(5),
    )


def _elements(flags: Mask, per: int) -> int:
    """Elements with any flagged part."""
    return int(np.count_nonzero(flags if per == 1 else flags.reshape(-1, per).any(1)))


def _max_relative(distance: Array, reference: Array) -> float | None:
    """max |a − b| / |a|: 0 where both are zero, infinite where only the reference is."""
    if not distance.size:
        return None
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = np.where(distance == 0, 0.0, distance / np.abs(reference))
    return float(relative.max())


def _mean(distance: Array) -> float | None:
    if not distance.size:
        return None
    largest = float(distance.max())
    if largest == 0 or largest == math.inf:
        return largest
    return float((distance / largest).mean()) * largest if largest > 1e290 else float(distance.mean())


def _cosine(a: Array, b: Array) -> float | None:
    """The cosine of the angle between two vectors: 1 for two zero vectors, 0 for one."""
    if not a.size:
        return None
    top_a, top_b = float(np.abs(a).max()), float(np.abs(b).max())
    if top_a == 0 or top_b == 0:
        return 1.0 if top_a == top_b else 0.0
    if np.array_equal(a, b):
        return 1.0
    # To about unit size first, by powers of two: squares neither overflow nor vanish, and nothing is rounded.
    a, b = np.ldexp(a, -math.frexp(top_a)[1]), np.ldexp(b, -math.frexp(top_b)[1])
    dot, aa, bb = (float(np.einsum("i,i->", x, y)) for x, y in ((a, b), (a, a), (b, b)))
    return max(-1.0, min(1.0, dot / math.sqrt(aa) / math.sqrt(bb)))


def _flips(reference: Array, other: Array) -> dict[int, int]:
    """For k = 1 and 5, the rows in which no choice among ties gives both sides the same k largest classes."""
    if reference.ndim == 0 or reference.shape[-1] < 2:
        return {}
    classes = reference.shape[-1]
    a, b = (_rank_keys(x).reshape(-1, classes) for x in (reference, other))
    return {k: _count_flips(a, b, k) for k in (1, 5) if classes > k}


def _rank_keys(a: Array) -> Array:
    """Integers that order as the floats do, every NaN above everything, as sorting in PyTorch has it."""
    flat = _flat(a)
    with np.errstate(invalid="ignore"):
        nan = np.isnan(widened(flat))
    return np.where(nan, np.iinfo(np.int64).max, ordered(flat))


def _count_flips(a: Array, b: Array, k: int) -> int:
    if not a.size:
        return 0
    thresholds = [x.max(1, keepdims=True) if k == 1 else np.partition(x, -k, axis=1)[:, [-k]] for x in (a, b)]
    certain = (a > thresholds[0]) | (b > thresholds[1])
    possible = (a >= thresholds[0]) & (b >= thresholds[1])
    agree = (possible.sum(1) >= k) & (certain.sum(1) <= k) & ~(certain & ~possible).any(1)
    return int(np.count_nonzero(~agree))
