"""Computes the 128-bit digest and the sketch of one output.

The digest is XXH3-128 over a header (dtype and shape) and the array's bytes: row-major, little-endian, each
NaN replaced by the one canonical quiet NaN of its format (a complex number's two parts apart). It is
positional, and it keeps what arithmetic keeps: −0 and +0 differ, Inf is itself. Two arrays have equal digests
when a bitwise comparison that forgives NaN payloads and signs would call them equal.

Both summaries are made chunk by chunk while a chunk is in the cache, so that a large output is read from
memory once. Sketches are for people and tables: their mean and norm may differ in the last bits between
machines for equal digests, and a sample may hold NaN. Identity is the digest alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import ml_dtypes
import numpy as np
import xxhash

from mindgap.graph import Array, MindgapError, dtype_name, numpy_dtype

#: Elements looked at together: 256 KiB of float32, which stays in a second-level cache.
CHUNK: Final = 1 << 16
#: How many elements a sketch samples, evenly spaced from the first to the last.
SAMPLE: Final = 8
#: Where squares of float64 may leave its range, the norm is taken of scaled values.
_SAFE_SQUARE: Final = (1e-140, 1e150)
_LITTLE: Final = sys.byteorder == "little"


@dataclass(frozen=True, slots=True)
class Sketch:
    """A summary that fits a table row. Counts are of elements (a complex number counts once);
    the moments are over finite elements, in float64; `sample` is a fixed choice of elements.

    Of a complex array, `minimum`, `maximum`, `mean` and `norm` are over real and imaginary parts
    alike, an infinite or NaN part left out alone, and `sample` alternates the two. An element with a
    NaN part counts under `nan` only, one with both infinities under `pos_inf` only. `minimum` to
    `norm` are None where no finite element is.
    """

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


def digest_array(a: Array) -> str:
    """The digest of an array of any graph dtype, shape, strides and byte order, as 32 hex digits.

    Raises `MindgapError` for a dtype that graphs do not hold.
    """
    name, parts = _parts(a)
    hasher = xxhash.xxh3_128(_header(name, a.shape))
    canonical = _CANONICAL.get(name)
    for chunk in _chunks(parts):
        hasher.update(_little_endian(chunk if canonical is None else canonical(chunk)))
    return hasher.hexdigest()


def digest_bytes(a: Array) -> str:
    """The digest of a C-contiguous array with its NaNs as they are. Where there is no NaN, `digest_array` is equal.

    It reads the array once, and costs a microsecond for a small one.
    """
    data: Any = a if a.dtype.isbuiltin == 1 and _LITTLE else _little_endian(_parts(a)[1])
    hasher = xxhash.xxh3_128(_header(dtype_name(a.dtype), a.shape))
    hasher.update(data)
    return hasher.hexdigest()


def sketch(a: Array) -> Sketch:
    """The summary of an array of any graph dtype. Raises `MindgapError` for a dtype that graphs do not hold."""
    name, parts = _parts(a)
    tally = _Tally()
    for chunk in _chunks(parts):
        tally.add(chunk, name)
    return tally.sketch(_sample(parts, name))


def digested(a: Array) -> Digested:
    """Digest and sketch in one pass. Raises `MindgapError` for a dtype that graphs do not hold."""
    name, parts = _parts(a)
    hasher = xxhash.xxh3_128(_header(name, a.shape))
    canonical = _CANONICAL.get(name)
    tally = _Tally()
    for chunk in _chunks(parts):
        clean = tally.add(chunk, name)
        hasher.update(_little_endian(chunk if canonical is None or clean else canonical(chunk)))
    return Digested(name, tuple(a.shape), hasher.hexdigest(), tally.sketch(_sample(parts, name)))


def _parts(a: Array) -> tuple[str, Array]:
    """PyTorch's dtype name, and the array flat, contiguous and native; a complex one as its real parts."""
    dtype = a.dtype
    if not dtype.isnative:
        dtype = dtype.newbyteorder("=")
        a = a.astype(dtype)
    try:
        name = dtype_name(dtype)
    except KeyError:
        raise MindgapError(f"an array of dtype {a.dtype} has no digest: graphs do not hold that dtype") from None
    flat = a.reshape(-1)
    if not flat.flags.c_contiguous:
        flat = flat.copy()
    return name, flat.view(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else flat


def _chunks(parts: Array) -> Iterable[Array]:
    if 0 < parts.size <= CHUNK:
        return (parts,)
    return (parts[start : start + CHUNK] for start in range(0, parts.size, CHUNK))


@lru_cache(1024)
def _header(name: str, shape: tuple[int, ...]) -> bytes:
    return f"{name}{list(shape)}".encode()


def _little_endian(chunk: Array) -> Any:
    """A buffer of the chunk's bytes, little-endian; dtypes that numpy does not know export none of their own."""
    if not _LITTLE and chunk.dtype.itemsize > 1:
        chunk = chunk.view(f"u{chunk.dtype.itemsize}").byteswap()
    return chunk.view(np.uint8)


def _canonical_native(chunk: Array) -> Array:
    """float32 or float64 with one NaN. The maximum is NaN where any element is."""
    largest = np.maximum.reduce(chunk)
    return chunk if largest == largest else np.where(np.isnan(chunk), np.array(np.nan, chunk.dtype), chunk)


def _canonical_16(infinity: int, quiet: int) -> Callable[[Array], Array]:
    """The same on the bits of a 16-bit format, whose magnitudes above `infinity` are its NaNs."""

    def canonical(chunk: Array) -> Array:
        bits = chunk.view(np.uint16)
        magnitude = bits & np.uint16(0x7FFF)
        if magnitude.max() <= infinity:
            return bits
        return np.where(magnitude > infinity, np.uint16(quiet), bits)

    return canonical


def _all_bytes(name: str) -> Array:
    return np.arange(256, dtype=np.uint8).view(numpy_dtype(name))


def _canonical_8(name: str) -> Callable[[Array], Array]:
    every = _all_bytes(name)
    table = np.where(np.isnan(every.astype(np.float32)), np.uint8(0x80 if "uz" in name else 0x7F), every.view(np.uint8))
    return lambda chunk: table[chunk.view(np.uint8)]


_FLOAT8: Final = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
_VALUES_8: Final = {name: _all_bytes(name).astype(np.float32) for name in _FLOAT8}
#: What replaces NaNs before hashing, by dtype name; a dtype without an entry has none.
_CANONICAL: Final[dict[str, Callable[[Array], Array]]] = {
    "float32": _canonical_native,
    "float64": _canonical_native,
    "complex64": _canonical_native,
    "complex128": _canonical_native,
    "float16": _canonical_16(0x7C00, 0x7E00),
    "bfloat16": _canonical_16(0x7F80, 0x7FC0),
    **{name: _canonical_8(name) for name in _FLOAT8},
}


def widened(values: Array) -> Array:
    """float16, bfloat16 and float8 as the equal float32, quickly; any other dtype as it is."""
    kind = values.dtype.kind
    if kind == "f" and values.dtype.itemsize == 2:
        with np.errstate(invalid="ignore"):  # a signalling NaN is no event worth a warning here
            return values.astype(np.float32)
    if values.dtype == ml_dtypes.bfloat16:
        return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if values.dtype.itemsize == 1 and (kind == "V" or kind == "f"):
        return _VALUES_8[dtype_name(values.dtype)][values.view(np.uint8)]
    return values


@dataclass(slots=True)
class _Tally:
    """What a sketch needs, gathered chunk by chunk."""

    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    zero: int = 0
    finite: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    means: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    norm: float = 0.0

    def add(self, chunk: Array, name: str) -> bool:
        """Takes a chunk in; returns whether it holds no NaN."""
        paired = name.startswith("complex")
        values = widened(chunk)
        is_zero = values == 0 if values.dtype.kind != "b" else ~values
        self.zero += int(np.count_nonzero(is_zero.view(np.uint16) == 0x0101 if paired else is_zero))
        low, high = values.min(), values.max()
        clean = True
        if values.dtype.kind == "f" and not (-math.inf < low and high < math.inf):
            clean = bool(low == low)
            self._count_exceptional(values, paired)
            values = values[np.isfinite(values)]
            if values.size == 0:
                return clean
            low, high = values.min(), values.max()
        self._moments(values, float(low), float(high))
        return clean

    def _count_exceptional(self, values: Array, paired: bool) -> None:
        nan, pos, neg = np.isnan(values), values == math.inf, values == -math.inf
        if paired:
            nan, pos, neg = (flag.reshape(-1, 2).any(1) for flag in (nan, pos, neg))
            pos = pos & ~nan
            neg = neg & ~nan & ~pos
        self.nan += int(np.count_nonzero(nan))
        self.pos_inf += int(np.count_nonzero(pos))
        self.neg_inf += int(np.count_nonzero(neg))

    def _moments(self, values: Array, low: float, high: float) -> None:
        self.finite += values.size
        self.minimum = min(self.minimum, low)
        self.maximum = max(self.maximum, high)
        wide = values.astype(np.float64, copy=False)
        largest = max(-low, high)
        scale = largest if largest > 0 and not _SAFE_SQUARE[0] < largest < _SAFE_SQUARE[1] else 1.0
        if scale != 1.0:
            wide = wide / scale
        self.means.append((float(wide.mean()) * scale, wide.size))
        self.norm = math.hypot(self.norm, math.sqrt(float(np.einsum("i,i->", wide, wide))) * scale)

    def sketch(self, sample: tuple[float, ...]) -> Sketch:
        counts = (self.nan, self.pos_inf, self.neg_inf, self.zero)
        if not self.finite:
            return Sketch(*counts, None, None, None, None, sample)
        mean = math.fsum(mean * (count / self.finite) for mean, count in self.means)
        return Sketch(*counts, self.minimum, self.maximum, mean, self.norm, sample)


def _sample(parts: Array, name: str) -> tuple[float, ...]:
    """Up to `SAMPLE` elements, evenly spaced, the first and the last among them."""
    width = 2 if name.startswith("complex") else 1
    n = parts.size // width
    if n > SAMPLE:
        picks = [i * (n - 1) // (SAMPLE - 1) * width + part for i in range(SAMPLE) for part in range(width)]
        parts = parts[picks]
    with np.errstate(invalid="ignore"):
        return tuple(widened(parts).astype(np.float64, copy=False).tolist())
