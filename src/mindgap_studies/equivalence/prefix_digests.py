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
from mindgap_studies.equivalence.equality import BITS, Equality, canonical_bits, format_of, raw_bits

#: Elements that are cut at a time: 128 KiB of float32.
_CHUNK: Final = 1 << 15
#: Bytes of a digest. Two unlike tensors have the same one with a probability of 2⁻⁴⁸.
LENGTH: Final = 6
#: A tensor's digests from 1 mantissa bit to all: the number of its equal leading digests is a remaining precision.
Prefixes = tuple[bytes, ...]
#: The dtype of the parts of complex numbers.
_PARTS: Final = {"complex64": np.float32, "complex128": np.float64}
_WITH_PRECISION: Final = frozenset({"float16", "bfloat16", "float32", "float64", *_PARTS})


def prefix_digests(values: Array, equality: Equality = BITS) -> Prefixes:
    """Returns the digests of a float tensor after 1, 2, … all mantissa bits. Sign and exponent are in each.

    Under `BITS`, −0 and +0 differ, and a NaN equals every other. Under `VALUES`, a tensor with a NaN equals nothing: it
    has no digests, and the result is empty. Shape and dtype are in the digests. Raises `MindgapError` for any other
    dtype than float16, bfloat16, float32 and float64.
    """
    form = format_of(values.dtype)
    header = f"{form.name}{list(values.shape)}".encode()
    hashers = [xxhash.xxh3_64(header) for _ in range(form.mantissa)]
    masks = [form.bits.type(form.sign * 2 - (1 << (form.mantissa - k))) for k in range(1, form.mantissa + 1)]
    bits = raw_bits(values)
    for start in range(0, bits.size, _CHUNK):
        chunk, lone = canonical_bits(bits[start : start + _CHUNK], form, equality)
        if lone:
            return ()
        for hasher, mask in zip(hashers, masks, strict=True):
            hasher.update((chunk & mask).view(np.uint8))
    return tuple(hasher.digest()[:LENGTH] for hasher in hashers)


def dendrogram(tensors: Sequence[Array], equality: Equality = BITS) -> Dendrogram:
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
    digests = [prefix_digests(each, equality) for each in tensors]
    length = max(map(len, digests), default=0) or (format_of(tensors[0].dtype).mantissa if tensors else 0)
    # What equals nothing shares no bit with any other.
    return dendrogram_of([each or (number.to_bytes(LENGTH + 1),) * length for number, each in enumerate(digests)])


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
    return dtype in _WITH_PRECISION


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
