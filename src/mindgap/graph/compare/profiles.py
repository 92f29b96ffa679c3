"""Tolerance profiles of the literature, so that rates can be compared. They decide no verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from mindgap.graph import Array, dtype_name, kind_of
from mindgap.graph.compare.digest import widened

Profile = Literal["paper", "assert_close"]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|other − reference| ≤ atol + rtol·|reference|."""

    rtol: float
    atol: float


#: "Mind the Gap": one pair of tolerances for outputs of any dtype.
PAPER: Final = Tolerance(rtol=1e-4, atol=5e-4)
#: What the documentation of torch.testing.assert_close gives for each dtype (2.13).
ASSERT_CLOSE: Final[dict[str, Tolerance]] = {
    "float16": Tolerance(1e-3, 1e-5),
    "bfloat16": Tolerance(1.6e-2, 1e-5),
    "float32": Tolerance(1.3e-6, 1e-5),
    "float64": Tolerance(1e-7, 1e-7),
    "complex64": Tolerance(1.3e-6, 1e-5),
    "complex128": Tolerance(1e-7, 1e-7),
}
_EXACT: Final = Tolerance(0.0, 0.0)


def tolerance(profile: Profile, dtype: str) -> Tolerance:
    """The tolerance that a profile has for a dtype name; `assert_close` has none for what it does not list."""
    return PAPER if profile == "paper" else ASSERT_CLOSE.get(dtype, _EXACT)


def passes(profile: Profile, reference: Array, other: Array) -> bool:
    """Whether every element is within the profile's tolerance; never across dtypes or shapes.

    NaN equals NaN in both profiles: torch's default calls a model whose reference output holds a NaN broken on
    every platform, which measures nothing. Infinities must be equal. Complex numbers are compared by modulus.
    """
    if reference.dtype != other.dtype or reference.shape != other.shape:
        return False
    name = dtype_name(reference.dtype)
    allowed = tolerance(profile, name)
    if kind_of(name) in ("int", "bool"):
        return _integers_pass(allowed, reference, other)
    wide = np.complex128 if kind_of(name) == "complex" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = (widened(np.ascontiguousarray(x)).astype(wide) for x in (reference, other))
        both_finite = np.isfinite(a) & np.isfinite(b)
        close = both_finite & (np.abs(b - a) <= allowed.atol + allowed.rtol * np.abs(a))
        return bool((close | (a == b) | (np.isnan(a) & np.isnan(b))).all())


def _integers_pass(allowed: Tolerance, reference: Array, other: Array) -> bool:
    """By the true difference, which no integer dtype overflows here."""
    if allowed == _EXACT:
        return bool((reference == other).all())
    larger, smaller = np.maximum(reference, other), np.minimum(reference, other)
    wraps = np.uint64 if reference.dtype == np.uint64 else np.int64
    with np.errstate(over="ignore"):
        gap = larger.astype(wraps).view(np.uint64) - smaller.astype(wraps).view(np.uint64)
    return bool((gap <= allowed.atol + allowed.rtol * np.abs(reference.astype(np.float64))).all())
