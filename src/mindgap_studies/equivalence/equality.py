"""Defines when two floats are equal, and brings arrays into bits in which equal means the same bits.

There are two equalities. `BITS` compares bit patterns: −0 and +0 differ, and a NaN equals every other NaN. `VALUES` is
the operator `==`: −0 and +0 are equal, and a NaN equals nothing, not even itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.graph.compare.digest import digest_array

#: When two floats count as equal. Payloads and signs of NaNs count in no case.
Equality = Literal["bits", "values"]
BITS: Final = "bits"
VALUES: Final = "values"


@dataclass(frozen=True, slots=True)
class BinaryFormat:
    """The bits of an IEEE 754 binary format. `mantissa`: stored mantissa bits. `infinity`: the bits of +∞."""

    name: str
    bits: np.dtype[Any]
    mantissa: int
    infinity: int

    @property
    def sign(self) -> int:
        """Returns the bits of −0."""
        return 1 << (self.bits.itemsize * 8 - 1)


#: By numpy's dtype.
_FORMATS: Final = {
    np.dtype(np.float16): BinaryFormat("float16", np.dtype(np.uint16), 10, 0x7C00),
    np.dtype(ml_dtypes.bfloat16): BinaryFormat("bfloat16", np.dtype(np.uint16), 7, 0x7F80),
    np.dtype(np.float32): BinaryFormat("float32", np.dtype(np.uint32), 23, 0x7F80_0000),
    np.dtype(np.float64): BinaryFormat("float64", np.dtype(np.uint64), 52, 0x7FF0_0000_0000_0000),
}


def format_of(dtype: np.dtype[Any]) -> BinaryFormat:
    """Returns the format of a dtype, in native byte order. Raises `MindgapError` for any other than these four."""
    try:
        return _FORMATS[dtype]
    except KeyError:
        known = ", ".join(each.name for each in _FORMATS.values())
        raise MindgapError(f"{dtype} has no remaining precision: it is defined for {known}") from None


def raw_bits(values: Array) -> Array:
    """Returns the elements as unsigned integers: flat, C order; a view where the array is contiguous."""
    return np.ascontiguousarray(values).reshape(-1).view(format_of(values.dtype).bits)


def canonical_bits(bits: Array, form: BinaryFormat, equality: Equality) -> tuple[Array, bool]:
    """Brings bits of a format into those in which equal elements have the same bits.

    Returns them (the argument itself where nothing had to change), and whether an element equals nothing, itself
    included: a NaN under `VALUES`.
    """
    if not bits.size:
        return bits, False
    if equality == VALUES:
        negative_zero = bits == form.bits.type(form.sign)
        if negative_zero.any():
            bits = np.where(negative_zero, form.bits.type(0), bits)
    magnitude = bits & form.bits.type(form.sign - 1)
    if magnitude.max() <= form.infinity:
        return bits, False
    if equality == VALUES:
        return bits, True
    # No sign, the first mantissa bit set, no payload.
    quiet_nan = form.bits.type(form.infinity | 1 << (form.mantissa - 1))
    return np.where(magnitude > form.infinity, quiet_nan, bits), False


def identity(values: Array, equality: Equality) -> str | None:
    """Returns a digest that two arrays share exactly if dtype and shape are the same and all elements are equal.

    `values`: of any graph dtype under `BITS`, where this is `digest_array`; one of the four formats under `VALUES`.
    None for an array that equals nothing, itself included. Raises `MindgapError` for another dtype.
    """
    if equality == BITS:
        return digest_array(values)
    bits, lone = canonical_bits(raw_bits(values), format_of(values.dtype), equality)
    return None if lone else digest_array(bits.view(values.dtype).reshape(values.shape))
