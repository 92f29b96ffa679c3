"""Integers of a quantised operator: what ONNX allows is right, a wrong rule is named, fewer bits are told apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from judge.quantised.cases import LIMITS, ZERO, Call, Case, Operand, drawn, numpy_of, quantised
from mindgap.graph import Array
from mindgap.judge.quantised import examination
from mindgap.judge.quantised.reach import Reach

WIDE = {"uint8": 255.0, "int8": 255.0, "uint16": 65535.0, "int16": 65535.0}


def operand(shape: tuple[int, ...], dtype: str, full: float = 8.0, seed: int = 0) -> Operand:
    return Operand(drawn(shape, dtype, seed), full / WIDE[dtype], ZERO[dtype])


def weights(shape: tuple[int, ...], channels: bool = True) -> Operand:
    numbers = np.random.default_rng(3)
    scale = numbers.uniform(0.005, 0.02, shape[0]).astype(np.float32) if channels else 0.0123
    return Operand(numbers.integers(-127, 128, shape).astype(np.int8), scale)


def conv(dtype: str) -> Case:
    return quantised(
        [operand((1, 4, 9, 9), dtype), weights((6, 4, 3, 3))], [("v", "aten.conv2d.default", "d0", "d1")],
        numpy_of(F.conv2d), dtype, 60 / WIDE[dtype],
    )  # fmt: skip


def unary(call: Call, right: Callable[..., torch.Tensor], full: float) -> Callable[[str], Case]:
    return lambda dtype: quantised(
        [operand((2, 3, 8, 8), dtype, 12.0)], [call], numpy_of(right), dtype, full / WIDE[dtype]
    )


def binary(call: Call, right: Callable[..., torch.Tensor], full: float) -> Callable[[str], Case]:
    return lambda dtype: quantised(
        [operand((1, 4, 8, 8), dtype), operand((1, 4, 8, 8), dtype, 3.0, 1)], [call], numpy_of(right), dtype,
        full / WIDE[dtype],
    )  # fmt: skip


CASES: dict[str, Callable[[str], Case]] = {
    "conv": conv,
    "matmul": lambda dtype: quantised(
        [operand((3, 8, 32), dtype), weights((32, 20), channels=False)], [("v", "aten.matmul.default", "d0", "d1")],
        numpy_of(torch.matmul), dtype, 60 / WIDE[dtype]),
    "add": binary(("v", "aten.add.Tensor", "d0", "d1"), torch.add, 9.0),
    "mul": binary(("v", "aten.mul.Tensor", "d0", "d1"), torch.mul, 9.0),
    "concat": binary(("v", "aten.cat.default", ("d0", "d1"), 1), lambda a, b: torch.cat([a, b], 1), 8.0),
    "average pool": unary(("v", "aten.avg_pool2d.default", "d0", (3, 3)), lambda x: F.avg_pool2d(x, 3), 9.0),
    "sigmoid": unary(("v", "aten.sigmoid.default", "d0"), torch.sigmoid, 1.0),
    "softmax": unary(("v", "aten.softmax.int", "d0", -1), lambda x: torch.softmax(x, -1), 1.0),
    "resize": unary(
        ("v", "aten.upsample_bilinear2d.vec", "d0", (16, 16), False, None),
        lambda x: F.interpolate(x, (16, 16), mode="bilinear", align_corners=False), 12.0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("name", CASES)
def test_float32_arithmetic_and_exact_integers_are_right(name: str, dtype: str) -> None:
    case = CASES[name](dtype)
    for integers in (case.computed(), case.integers(case.x)):
        found = case.examined(integers)
        assert (found.kind, found.count) == ("right", 0)
    off = case.integers(case.x)
    # A whole step off, where the exact quotient is within a quarter of a step of an integer.
    sure = np.abs(case.x - np.rint(case.x)) < 0.25
    place = tuple(np.argwhere(sure & (off > LIMITS[dtype][0]))[0])
    off[place] -= 1
    found = case.examined(off)
    if dtype in ("uint8", "int8"):
        assert found.kind == "discrepant" and found.count == 1 and found.position == place
    else:  # 16 bits are finer than float16
        assert found.kind != "right" and found.count == 1


def fixed_point(case: Case, factors: Array, total: Array, twice: bool) -> Array:
    """Requantises whole sums with a factor of 31 bits; `twice`: rounds the product before the shift, as gemmlowp."""
    mantissa, exponent = np.frexp(factors)
    factor = np.rint(mantissa * 2.0**31)
    product = total * factor
    if twice:
        product = np.floor(product / 2.0**31 + 0.5)
        return np.clip(np.floor(product * 2.0**exponent + 0.5) + case.zero, *LIMITS[case.dtype]).astype(case.dtype)
    return case.integers(product / 2.0**31 * 2.0**exponent)


@pytest.mark.parametrize("twice", [False, True])
def test_a_factor_of_31_bits_is_right_and_one_of_8_is_not(twice: bool) -> None:
    case = conv("uint8")
    x, w, scale = case.inputs[0], case.inputs[2], case.inputs[-1]
    total = numpy_of(F.conv2d)(x.astype(np.float64) - case.zero, w.astype(np.float64))
    factors = (
        case.inputs[1].astype(np.float64) * case.inputs[3].astype(np.float64) / scale.astype(np.float64)
    ).reshape(1, 6, 1, 1)
    assert case.examined(fixed_point(case, factors, total, twice)).kind == "right"
    coarse = np.rint(factors * 2.0**10) / 2.0**10
    assert case.examined(case.integers(total * coarse)).kind == "discrepant"


def test_a_factor_of_float16_is_reduced_precision() -> None:
    case = conv("uint8")
    steps = case.x * (1 + np.where(np.arange(6) % 2, 2.0**-11, -(2.0**-11))).reshape(1, 6, 1, 1)
    found = case.examined(case.integers(steps))
    assert found.kind == "reduced_precision" and found.farthest == 1 and 0 < found.beyond < 0.25


def away_from_zero(x: Array) -> Array:
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def accumulated(limit: Callable[[Array], Array]) -> Callable[[Case], Array]:
    """Sums of products in another accumulator."""

    def wrong(case: Case) -> Array:
        total = numpy_of(F.conv2d)(case.inputs[0].astype(np.float64) - case.zero, case.inputs[2].astype(np.float64))
        factor = np.divide(case.x, total, out=np.zeros_like(total), where=total != 0)
        return case.integers(limit(total) * factor)

    return wrong


def wrapped(case: Case) -> Array:
    low, high = LIMITS[case.dtype]
    return (np.mod(np.rint(case.x) + case.zero - low, high - low + 1) + low).astype(case.dtype)


def rounded(function: Callable[[Array], Array]) -> Callable[[Case], Array]:
    return lambda case: np.clip(function(case.x) + case.zero, *LIMITS[case.dtype]).astype(case.dtype)


WRONG: dict[str, tuple[Callable[[Case], Array], str]] = {
    "truncation": (rounded(np.trunc), "as if cut off toward zero, not rounded"),
    "floor": (rounded(np.floor), "as if rounded down"),
    "zero point": (rounded(lambda x: np.rint(x) + 1), "every element is off by 1, as with another zero point"),
    "no saturation": (wrapped, "as if integers wrapped at the limits, not saturated"),
    "limits of another type": (lambda case: np.clip(case.integers(case.x), 0, 127), ""),
    "scale of another channel": (
        lambda case: case.integers(case.x * (np.roll(case.inputs[3], 1, 0) / case.inputs[3]).reshape(1, 6, 1, 1)), ""),
    "a 16-bit accumulator": (accumulated(lambda total: np.clip(total, -32768, 32767)), ""),
    "a 16-bit accumulator that wraps": (accumulated(lambda total: np.mod(total + 32768, 65536) - 32768), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_a_finding(name: str) -> None:
    case = quantised(
        [operand((1, 4, 9, 9), "uint8"), weights((6, 4, 3, 3))], [("v", "aten.conv2d.default", "d0", "d1")],
        numpy_of(F.conv2d), "uint8", 20 / 255,
    )  # fmt: skip
    wrong, words = WRONG[name]
    assert not np.array_equal(wrong(case), case.integers(case.x))
    found = case.examined(wrong(case))
    assert (found.kind, found.rule) == ("discrepant", words)


TIES: dict[str, Callable[[], Case]] = {
    "concat": lambda: quantised(
        [Operand(drawn((1, 2, 8, 8), "int8"), 2.0**-4), Operand(drawn((1, 2, 8, 8), "int8", 1), 2.0**-5)],
        [("v", "aten.cat.default", ("d0", "d1"), 1)], lambda a, b: np.concatenate([a, b], 1), "int8", 2.0**-4),
    "conv": lambda: quantised(
        [Operand(drawn((1, 4, 6, 6), "int8"), 2.0**-4), Operand(drawn((3, 4, 1, 1), "int8", 1) // 16, 2.0**-4)],
        [("v", "aten.conv2d.default", "d0", "d1")], numpy_of(F.conv2d), "int8", 0.125),
    "average pool": lambda: quantised(
        [Operand(drawn((1, 4, 8, 8), "int8"), 2.0**-4)], [("v", "aten.avg_pool2d.default", "d0", (2, 2))],
        numpy_of(lambda x: F.avg_pool2d(x, 2)), "int8", 2.0**-4),
}  # fmt: skip


@pytest.mark.parametrize("name", TIES)
def test_a_tie_of_exact_arithmetic_goes_to_the_even_integer(name: str) -> None:
    case = TIES[name]()
    ties = np.abs(case.x - np.floor(case.x)) == 0.5
    assert ties.any() and case.examined(case.computed()).kind == "right"
    found = case.examined(rounded(away_from_zero)(case))
    assert (found.kind, found.beyond) == ("discrepant", 0.0)
    assert found.rule == "as if halves were rounded away from zero, not to even"
    up = case.examined(rounded(lambda x: np.floor(x + 0.5))(case))
    assert up.rule == "as if halves were rounded up, not to even"


def test_a_tie_of_inexact_arithmetic_may_go_either_way() -> None:
    """A scale of 0.1 has no exact products in float32."""
    case = quantised(
        [Operand(drawn((4, 64), "int8"), 0.1)], [("v", "aten.mul.Tensor", "d0", 0.5)], lambda x: x * 0.5, "int8", 0.1
    )
    assert case.examined(rounded(away_from_zero)(case)).kind == "right"


def test_infinity_is_cut_off_and_nan_may_be_anything() -> None:
    divisor = np.array([[0, 1, 0, 2]], np.int8)
    case = quantised(
        [Operand(np.array([[3, 3, 0, -5]], np.int8), 0.5), Operand(divisor, 0.25)],
        [("v", "aten.div.Tensor", "d0", "d1")], lambda a, b: a / np.where(b == 0, 1, b), "int8", 0.5,
    )  # fmt: skip
    assert case.examined(np.array([[127, 7, 99, -15]], np.int8)).kind == "right"
    assert case.examined(np.array([[-128, 7, 99, -15]], np.int8)).count == 1


def test_an_encoding_of_the_makers_own_is_named() -> None:
    """A maker's encoding of a function with a known range, put in place of the model's."""
    case = CASES["sigmoid"]("uint16")
    real = case.x * float(case.inputs[-1])
    found = case.examined(np.clip(np.rint(real * 32768) + 32768, 0, 65535).astype(np.uint16))
    assert found.kind == "discrepant"
    assert found.rule.startswith(
        "as if the model had the scale 3.05176e-05 and the zero point 32768, and not 1.5259e-05"
    )


def test_a_step_of_the_value_before_is_no_fault_of_the_next() -> None:
    """Two quantised values: the second is right for the integers that the platform gave for the first."""
    from judge.oracle.bench import build
    from mindgap.graph import DType
    from mindgap.judge.quantised import examine_quantised, quantised_values

    x = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32) * 3

    def quantise(value: str, name: str, scale: float) -> list[Call]:
        return [
            (f"{name}s", "aten.div.Tensor", value, scale), (f"{name}r", "aten.round.default", f"{name}s"),
            (f"{name}a", "aten.add.Tensor", f"{name}r", 100), (f"{name}c", "aten.clamp.default", f"{name}a", 0, 255),
            (name, "aten.to.dtype", f"{name}c", DType("uint8")), (f"{name}i", "aten.to.dtype", name, DType("int32")),
            (f"{name}z", "aten.sub.Tensor", f"{name}i", 100),
            (f"{name}f", "aten.to.dtype", f"{name}z", DType("float32")),
            (f"{name}d", "aten.mul.Tensor", f"{name}f", scale),
        ]  # fmt: skip

    calls = [*quantise("i0", "p", 0.1), ("y", "aten.tanh.default", "pd"), *quantise("y", "q", 0.015)]
    graph = build([x], calls, ["qd"])
    first, second = quantised_values(graph)
    wrong = np.clip(np.rint(x.astype(np.float64) / 0.1) + 101, 0, 255).astype(np.uint8)
    after = np.clip(np.rint(np.tanh((wrong.astype(np.float64) - 100) * 0.1) / 0.015) + 100, 0, 255).astype(np.uint8)
    output = ((after.astype(np.int32) - 100).astype(np.float32) * np.float32(0.015)).astype(np.float32)
    found = examine_quantised(graph, [x], {first.number: wrong, second.number: after}, [output])
    assert [each.kind for each in found] == ["discrepant", "right", "right"]
    found = examine_quantised(graph, [x], {first.number: wrong, second.number: after}, [output + 0.2])
    assert [each.kind for each in found] == ["discrepant", "right", "discrepant"]


@pytest.mark.parametrize("reach", [0.4, 10.0, 40.0, np.inf])
def test_an_element_that_may_be_too_many_integers_is_not_judged(reach: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where float32 rounding decides which pixel a resized image takes."""
    case = conv("int8")
    middle = int(np.abs(case.x).argmin())
    steps = torch.full(case.x.shape, 0.4, dtype=torch.float64)
    steps.view(-1)[middle] = reach
    monkeypatch.setattr(examination, "reach", lambda *_: Reach(steps, torch.zeros_like(steps)))
    found = case.examined(case.integers(case.x))
    assert found.kind == ("right" if reach < 16 else "undecided")
    if found.kind == "undecided":
        assert found.why == "rounding leaves more than 1/8 of the integers of its type open at 1 of 294 elements"
    wrong = case.integers(case.x)
    wrong.flat[middle + 1] ^= 0x40
    assert case.examined(wrong).kind == "discrepant"
