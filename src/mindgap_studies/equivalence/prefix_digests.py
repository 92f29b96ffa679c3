"""Digests of a tensor cut off after 1, 2, … mantissa bits: remaining precision without the tensors themselves.

The remaining precision of two tensors (`dendrogram`) is the largest number of leading mantissa bits after which all
elements are the same. Two tensors share k bits or more exactly if their digests number k are equal. So the digests of
many tensors, made on many machines at many times, give the same dendrogram as the tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import xxhash

from mindgap.graph import Array, MindgapError
from mindgap.graph.compare.digest import digest_array
from mindgap.graph.compare.metrics import MANTISSA_BITS
from mindgap_studies.equivalence.dendrogram import Dendrogram

#: Elements that are cut at a time: 128 KiB of float32.
_CHUNK: Final = 1 << 15
#: Bytes of a digest. Two unlike tensors have the same one with a probability of 2⁻⁴⁸.
LENGTH: Final = 6
#: A tensor's digests from 1 mantissa bit to all: the number of its equal leading digests is a remaining precision.
Prefixes = tuple[bytes, ...]
#: The dtype of the parts of complex numbers.
_PARTS: Final = {"complex64": np.float32, "complex128": np.float64}
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


def prefix_digests(values: Array) -> Prefixes:
    """Returns the digests of a float tensor after 1, 2, … all mantissa bits. Sign and exponent are in each.

    −0 and +0 differ, and a NaN equals every other. Shape and dtype are in the digests. Raises `MindgapError` for any
    other dtype than float16, bfloat16, float32 and float64.
    """
    name = values.dtype.name
    if name not in _FLOATS:
        raise MindgapError(f"{name} has no remaining precision: it is defined for {', '.join(_FLOATS)}")
    mantissa = MANTISSA_BITS[name]
    hashers = [xxhash.xxh3_64(f"{name}{list(values.shape)}".encode()) for _ in range(mantissa)]
    bits = np.dtype(f"u{values.itemsize}")
    masks = [bits.type(2 ** (8 * bits.itemsize) - (1 << (mantissa - k))) for k in range(1, mantissa + 1)]
    flat = np.ascontiguousarray(values).reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        with np.errstate(invalid="ignore"):  # signalling NaNs
            chunk = np.where(np.isnan(chunk), values.dtype.type(np.nan), chunk).view(bits)
        for hasher, mask in zip(hashers, masks, strict=True):
            hasher.update((chunk & mask).view(np.uint8))
    return tuple(hasher.digest()[:LENGTH] for hasher in hashers)


def dendrogram(tensors: Sequence[Array]) -> Dendrogram:
    """Returns the remaining precision of all pairs of tensors.

    Raises `MindgapError` for no tensors, a dtype that is not a float format, and unlike dtypes or sizes.
    """
    about = [(str(each.dtype), each.size) for each in tensors]
    for number, (dtype, size) in enumerate(about):
        if (dtype, size) != about[0]:
            raise MindgapError(
                f"tensor {number} is {dtype} of {size} elements, tensor 0 is {about[0][0]} of {about[0][1]}: remaining "
                "precision is of tensors of one dtype and size"
            )
    return dendrogram_of([prefix_digests(each) for each in tensors])


def value_digests(values: Array) -> Prefixes:
    """Returns `prefix_digests` of floats, and of both parts of complex numbers. Of any other dtype, one digest.

    So two integer tensors share either their only "bit" or none.
    """
    part = _PARTS.get(values.dtype.name)
    if part is not None:
        return prefix_digests(np.ascontiguousarray(values).reshape(-1).view(part))
    if has_precision(values.dtype.name):
        return prefix_digests(values)
    return (bytes.fromhex(digest_array(values))[:LENGTH],)


def has_precision(dtype: str) -> bool:
    return dtype in _FLOATS or dtype in _PARTS


def digest_count(dtype: str) -> int:
    """Returns the number of digests in `value_digests` of a dtype."""
    return MANTISSA_BITS[dtype] if has_precision(dtype) else 1


def shared_bits(one: Prefixes, other: Prefixes) -> int:
    """Returns the remaining precision of two tensors of one dtype and shape, in bits."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))


def dendrogram_of(prefixes: Sequence[Prefixes]) -> Dendrogram:
    """Returns the remaining precision of all pairs of tensors, from their digests.

    Raises `MindgapError` for no tensors, and for tensors of unlike dtypes.
    """
    if not prefixes:
        raise MindgapError("remaining precision of no tensors: give at least one")
    if len({len(each) for each in prefixes}) > 1:
        raise MindgapError("remaining precision is of tensors of one dtype, and these have mantissas of unlike lengths")
    # Sorted like words, tensors with a longer common beginning stand closer: the leaves of the tree. Equal ones, and
    # whole groups, keep the order in which they appeared.
    first: dict[Prefixes, int] = {}
    for i, each in enumerate(prefixes):
        for k in range(len(each) + 1):
            first.setdefault(each[:k], i)
    order = sorted(
        range(len(prefixes)), key=lambda i: (*(first[prefixes[i][:k]] for k in range(1, len(prefixes[i]) + 1)), i)
    )
    shared = tuple(shared_bits(prefixes[a], prefixes[b]) for a, b in pairwise(order))
    return Dendrogram(len(prefixes[0]), tuple(order), shared)
