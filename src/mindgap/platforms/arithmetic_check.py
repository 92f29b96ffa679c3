"""Checks the arithmetic of an emulator or simulator against exact results, before anything else of it is believed.

`draw` gives operands, the caller runs the operation there, `judged` compares. Exact results are computed on this
machine: those of float32 and float16 in float64, which rounds them twice without harm (Figueroa, 1995: 53 bits are at
least 2 * 24 + 2); a fused product and sum by error-free transformations and rounding to odd (Boldo and Melquiond,
2008); those of float64 and of integers by this machine's own processor.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from mindgap.graph import Array

#: What a NaN must be: any NaN, or that of IEEE 754's recommendation: the quieted operand where one operand is NaN, and
#: where none is, the processor's default, positive or negative.
NanRule = Literal["any", "positive", "negative"]
#: Operands of each operation.
VALUES: Final = 1 << 20
_UNSIGNED: Final = {2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on arrays of one dtype.

    name: as numpy has it, `fma`, or `to_DTYPE` for a conversion.
    dtype: of the operands.
    result: dtype of the results.
    arity: the number of operands.
    exact: computes the results.
    payload: a NaN among the results has to follow the `NanRule`; else any NaN is right.
    """

    name: str
    dtype: str
    result: str
    arity: int
    exact: Callable[..., Any]
    payload: bool = True

    @property
    def words(self) -> str:
        """`float32 add`."""
        return f"{self.dtype} {self.name}"


@dataclass(frozen=True, slots=True)
class ArithmeticResult:
    """How an operation compares with exact results.

    operation: its words (`float32 add`).
    values: the number of results.
    wrong: how many are not exact.
    example: the first wrong one: operands, result, what is exact.
    missing: why it was not run; empty where it was.
    """

    operation: str
    values: int = 0
    wrong: int = 0
    example: str = ""
    missing: str = ""


def draw(operation: Operation, values: int = VALUES) -> list[Array]:
    """The operands of an operation, `values` in each: the same at every call.

    Of floats, a quarter each: any bits (NaN with payloads, infinities, denormals among them); numbers close to one
    another, whose sums cancel; numbers whose products and quotients are denormal; and special numbers in all pairs.
    """
    rng = np.random.default_rng(zlib.crc32(operation.words.encode()))
    if operation.dtype.startswith("int"):
        return [_integers(rng, operation, values) for _ in range(operation.arity)]
    if operation.result.startswith("int"):
        largest = 2.0 ** (np.iinfo(operation.result).bits - 1)
        drawn = (rng.uniform(-1, 1, values) * largest * 2.0 ** -rng.integers(0, 40, values)).astype(operation.dtype)
        return [np.where(np.abs(drawn) < largest, drawn, 0).astype(operation.dtype)]
    if (operation.name, operation.dtype) == ("fma", "float64"):
        # The error-free transformations must not underflow.
        return [rng.standard_normal(values) * 2.0 ** rng.integers(-60, 60, values) for _ in range(3)]
    return [_floats(rng, np.dtype(operation.dtype), values, each) for each in range(operation.arity)]


def judged(operation: Operation, operands: Sequence[Array], result: Array, nan: NanRule = "any") -> ArithmeticResult:
    """Compares results with the exact ones, bit by bit. Zeros of either sign are equal for minimum and maximum.

    nan: what a NaN must be where the operation has a rule for it.
    """
    with np.errstate(all="ignore"):
        exact = np.asarray(operation.exact(*operands)).astype(operation.result)
    if result.dtype != exact.dtype or result.shape != exact.shape:
        given = f"{result.dtype}{list(result.shape)} instead of {exact.dtype}{list(exact.shape)}"
        return ArithmeticResult(operation.words, exact.size, exact.size, given)
    right = _bits(result) == _bits(exact)
    if operation.name in ("minimum", "maximum"):
        right |= (result == 0) & (exact == 0)
    if exact.dtype.kind == "f":
        right = np.where(np.isnan(exact), _right_nan(operation, operands, result, exact, nan), right)
    wrong = np.flatnonzero(~right)
    example = ""
    if wrong.size:
        first = wrong[0]
        given = ", ".join(_shown(each[first]) for each in operands)
        example = f"{operation.name}({given}) gave {_shown(result[first])}, exact is {_shown(exact[first])}"
    return ArithmeticResult(operation.words, exact.size, int(wrong.size), example)


def _right_nan(operation: Operation, operands: Sequence[Array], result: Array, exact: Array, rule: NanRule) -> Array:
    """Which results are a right NaN, where the exact one is NaN."""
    is_nan = np.isnan(result)
    if rule == "any" or not operation.payload:
        return is_nan
    number = np.asarray(sum(np.isnan(each).astype(np.int8) for each in operands))
    if operation.name == "fma":
        # Infinity times zero plus a NaN: the standard leaves open which NaN it is.
        with np.errstate(all="ignore"):
            number[np.isnan(operands[0] * operands[1]) & (number == 1) & np.isnan(operands[2])] = 2
    # Of two NaN operands, processors take different ones.
    return is_nan & np.select(
        [number == 0, number == 1],
        [np.signbit(result) == (rule == "negative"), _bits(result) == _bits(exact)],
        default=True,
    )


def _floats(rng: np.random.Generator, dtype: np.dtype[Any], values: int, which: int) -> Array:
    kind = _UNSIGNED[dtype.itemsize]
    part = values // 4
    info = np.finfo(dtype)
    any_bits = rng.integers(0, np.iinfo(kind).max, part, kind, endpoint=True).view(dtype)
    close = (rng.uniform(0.5, 2, part) * rng.choice([-1, 1], part)).astype(dtype)
    small = (rng.uniform(1, 2, part) * 2.0 ** rng.integers(info.minexp // 2 - 8, info.minexp // 2 + 2, part)).astype(
        dtype
    )
    special = np.array(
        [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, info.smallest_subnormal, info.eps,
         1.5, 3, 2, -0.5], dtype,
    )  # fmt: skip
    # Each operand runs through the table at another speed, so that all pairs occur.
    rest = special[(np.arange(values - 3 * part) // len(special) ** which) % len(special)]
    return np.concatenate([any_bits, close, small, rest])


def _integers(rng: np.random.Generator, operation: Operation, values: int) -> Array:
    info = np.iinfo(operation.dtype)
    drawn = rng.integers(info.min, info.max, values, operation.dtype, endpoint=True)
    return drawn >> rng.integers(0, info.bits - 1, values).astype(operation.dtype)


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(_UNSIGNED[array.dtype.itemsize])


def _shown(value: Any) -> str:
    bits = f" (0x{int(value.view(_UNSIGNED[value.dtype.itemsize])):x})" if value.dtype.kind == "f" else ""
    return f"{value!s}{bits}"


def _in_float64(name: str) -> Callable[..., Any]:
    """A function of numpy, in float64."""
    return lambda *operands: getattr(np, name)(*(each.astype(np.float64) for each in operands))


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The sum, and its error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The product, and its error, exactly (Dekker), for numbers whose parts do not overflow or underflow."""

    def halves(x: Array) -> tuple[Array, Array]:
        scaled = x * 134217729.0  # 2**27 + 1
        high = scaled - (scaled - x)
        return high, x - high

    (ah, al), (bh, bl), product = halves(a), halves(b), a * b
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _sum_to_odd(a: Array, b: Array) -> Array:
    """The sum, rounded to the neighbour whose last bit is odd where it is not exact."""
    total, error = _two_sum(a, b)
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0) & (_bits(total) % 2 == 0)
    return np.where(inexact, np.nextafter(total, np.copysign(np.inf, error)), total)


def _fma32(a: Array, b: Array, c: Array) -> Array:
    product = a.astype(np.float64) * b.astype(np.float64)
    return _sum_to_odd(product, c.astype(np.float64))


def _fma64(a: Array, b: Array, c: Array) -> Array:
    high, low = _two_product(a, b)
    th, tl = _two_sum(c, low)
    vh, vl = _two_sum(high, th)
    return vh + _sum_to_odd(tl, vl)


def _same(operand: Array) -> Array:
    return operand


_ARITHMETIC: Final = ("add", "subtract", "multiply", "divide")
OPERATIONS: Final = (
    *(Operation(name, "float32", "float32", 2, _in_float64(name)) for name in _ARITHMETIC),
    *(Operation(name, "float64", "float64", 2, getattr(np, name)) for name in _ARITHMETIC),
    Operation("sqrt", "float32", "float32", 1, _in_float64("sqrt")),
    Operation("sqrt", "float64", "float64", 1, np.sqrt),
    Operation("fma", "float32", "float32", 3, _fma32),
    Operation("fma", "float64", "float64", 3, _fma64),
    *(Operation(name, "float32", "float32", 2, getattr(np, name), False) for name in ("minimum", "maximum")),
    *(Operation(name, "float32", "float32", 1, _in_float64(name)) for name in ("rint", "floor", "ceil", "trunc")),
    Operation("add", "float16", "float16", 2, _in_float64("add"), False),
    Operation("to_float64", "float32", "float64", 1, _same),
    Operation("to_float32", "float64", "float32", 1, _same),
    Operation("to_float16", "float32", "float16", 1, _same, False),
    Operation("to_float32", "float16", "float32", 1, _same, False),
    Operation("to_int32", "float32", "int32", 1, np.trunc),
    Operation("to_int64", "float64", "int64", 1, np.trunc),
    Operation("to_float32", "int32", "float32", 1, _same),
    Operation("to_float64", "int64", "float64", 1, _same),
    *(Operation(name, kind, kind, 2, getattr(np, name)) for kind in ("int32", "int64") for name in ("add", "multiply")),
)  # fmt: skip
