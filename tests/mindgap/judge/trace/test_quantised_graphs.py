"""Quantised graphs: a wrong rule of rounding or saturation is found and named, a tie within rounding is none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from judge.oracle.bench import PLATFORM, Bench, Fault, build
from mindgap.graph import DType, Graph
from mindgap.judge.trace.judgement import Judgement

#: A layer: operand and weights of 8 bits, a scale for each output, a zero point of 60 and one of 100.
SCALE, OTHER = 0.031, 0.25


def layer(
    scale: float = SCALE,
    conv: bool = False,
    full: bool = False,
    ties: int = 0,
    small: bool = False,
    shown: str = "y",
) -> tuple[Graph, list[Any]]:
    """Quantise, multiply (or convolve) integers, quantise again, dequantise.

    `scale`: of the operand. `full`: weights of the full range; `small`: of few bits. `ties`: how many operands lie on
    the border of two steps. `shown`: the output.
    """
    numbers = np.random.default_rng(0)
    shape, weight = ((2, 8, 6, 6), (5, 8, 3, 3)) if conv else ((48, 24), (24, 5))
    steps = numbers.uniform(-60, 190, shape)
    steps.flat[:ties] = np.arange(ties) % 100 + 0.5
    x = (steps * scale).astype(np.float32)
    w = numbers.integers(100, 128, weight) if full else numbers.integers(*((-9, 10) if small else (-127, 128)), weight)
    factors = numbers.uniform(2e-3, 6e-3, 5).astype(np.float32) * (0.2 if conv or full else 1.0) * (8 if small else 1)
    factors = factors.reshape((1, 5, 1, 1) if conv else (1, 5))
    product: list[tuple[Any, ...]] = [("p", "aten.matmul.default", "m", "i1")]
    if conv:
        product = [("f", "aten.to.dtype", "m", DType("float32")), ("g", "aten.conv2d.default", "f", "i1"),
                   ("r", "aten.round.default", "g"), ("p", "aten.to.dtype", "r", DType("int32"))]  # fmt: skip
    calls = [
        ("s", "aten.mul.Tensor", "i0", float(np.float32(1 / scale))), *quantised("s", "q", 60),
        ("n", "aten.to.dtype", "q", DType("int32")), ("m", "aten.sub.Tensor", "n", 60), *product,
        ("t", "aten.to.dtype", "p", DType("float32")), ("u", "aten.mul.Tensor", "t", "i2"), *quantised("u", "v", 100),
        ("w", "aten.to.dtype", "v", DType("float32")), ("x", "aten.sub.Tensor", "w", 100.0),
        ("y", "aten.mul.Tensor", "x", 0.07),
    ]  # fmt: skip
    arrays = [x, w.astype(np.float32 if conv else np.int32), factors]
    return build(arrays, calls, [shown]), arrays


def quantised(value: str, name: str, zero: int) -> list[tuple[Any, ...]]:
    return [
        (f"{name}1", "aten.round.default", value), (f"{name}2", "aten.add.Tensor", f"{name}1", zero),
        (f"{name}3", "aten.clamp.default", f"{name}2", 0, 255), (name, "aten.to.dtype", f"{name}3", DType("uint8")),
    ]  # fmt: skip


def at(op: str, change: Callable[[torch.Tensor, Sequence[Any]], torch.Tensor | None]) -> Fault:
    """A platform whose operator gives something else; None for what it gives right."""

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        changed = change(result, args) if graph.nodes[index].op == op else None
        return result if changed is None else changed

    return fault


def pairs(result: torch.Tensor, args: Sequence[Any]) -> torch.Tensor:
    products = args[0].unsqueeze(-1) * args[1]
    return products.unflatten(-2, (-1, 2)).sum(-2).clamp(-32768, 32767).sum(-2).to(torch.int32)


def in_float16(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    parts = [F.conv2d(x[:, i : i + 1], weight[:, i : i + 1]).half() for i in range(x.shape[1])]
    return functools.reduce(torch.add, parts).float()


def of_another_channel(result: torch.Tensor, args: Sequence[Any]) -> torch.Tensor | None:
    return args[0] * args[1].roll(1, 1) if isinstance(args[1], torch.Tensor) else None


def judged(fault: Fault | None, **kind: Any) -> Judgement:
    return Bench({PLATFORM: fault} if fault else {}).judge(*layer(**kind))


FAULTS: dict[str, tuple[Fault, dict[str, Any], str, str, str]] = {
    "half away from zero": (
        at("aten.round.default", lambda y, a: a[0].sign() * (a[0].abs() + 0.5).floor()), {"scale": OTHER, "ties": 200},
        "discrepant", "aten.round.default", "as if halves were rounded away from zero, not to even"),
    "truncation": (
        at("aten.round.default", lambda y, a: a[0].trunc()), {},
        "discrepant", "aten.round.default", "as if cut off toward zero, not rounded"),
    "a 16-bit accumulator": (
        at("aten.matmul.default", lambda y, a: y.clamp(-32768, 32767)), {},
        "discrepant", "aten.matmul.default", "as if sums were cut off at the limits of 16 bits"),
    "a 16-bit accumulator that wraps": (
        at("aten.matmul.default", lambda y, a: y.to(torch.int16).to(torch.int32)), {},
        "discrepant", "aten.matmul.default", "as if sums wrapped at 16 bits"),
    "a 16-bit accumulator of a convolution": (
        at("aten.conv2d.default", lambda y, a: y.clamp(-32768, 32767)), {"conv": True},
        "discrepant", "aten.conv2d.default", "as if sums were cut off at the limits of 16 bits"),
    "VPMADDUBSW": (
        at("aten.matmul.default", pairs), {"full": True},
        "discrepant", "aten.matmul.default", "as if sums of two products were cut off at the limits of 16 bits, as by"),
    "zero point": (
        at("aten.add.Tensor", lambda y, a: y + 1 if a[1] == 60 else None), {},
        "discrepant", "aten.add.Tensor", "every element is off by 1, as with another zero point"),
    "scale of another channel": (
        at("aten.mul.Tensor", of_another_channel), {},
        "discrepant", "aten.mul.Tensor", "as if each channel had the factor of the one before it"),
    "wrap in place of saturate": (
        at("aten.clamp.default", lambda y, a: a[0].clone()), {},
        "discrepant", "aten.clamp.default", "as if nothing were cut off at the limits"),
    "limits of signed integers": (
        at("aten.clamp.default", lambda y, a: a[0].clamp(-128, 127)), {},
        "discrepant", "aten.clamp.default", "as if cut off at -128 and 127"),
    "requantised through float16": (
        at("aten.mul.Tensor", lambda y, a: y.half().float() if isinstance(a[1], torch.Tensor) else None), {},
        "reduced_precision", "aten.mul.Tensor", "as if computed in float16"),
    "sums rounded to float16": (
        at("aten.conv2d.default", lambda y, a: y.half().float()), {"conv": True, "small": True},
        "reduced_precision", "aten.conv2d.default", "as if sums were rounded to float16"),
    "sums kept in float16": (
        at("aten.conv2d.default", lambda y, a: in_float16(*a)), {"conv": True, "small": True},
        "reduced_precision", "aten.conv2d.default", "as if sums were accumulated in float16"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_rule_is_found_and_named(name: str) -> None:
    fault, kind, verdict, op, words = FAULTS[name]
    found = judged(fault, **kind)
    assert (found.verdict, found.blame) == (verdict, "platform")
    assert found.culprit is not None and found.culprit.op == op
    assert words in found.detail


def test_wrong_sums_that_float16_holds_are_not_said_to_be_accumulated_there() -> None:
    """One right sum, 2049, is none of float16. What the platform gives is, and another sum is off by 2."""
    x = np.full((8, 129), 8, np.float32)
    x[0], x[:, 128] = 16, 1
    w = np.ones((129, 4), np.float32)
    graph = build([x, w], [("p", "aten.matmul.default", "i0", "i1")], ["p"])

    def wrong(result: torch.Tensor, args: Sequence[Any]) -> torch.Tensor:
        assert float(result[0, 0]) == 2049
        changed = result.half().float()
        changed[1, 1] += 2
        return changed

    found = Bench({PLATFORM: at("aten.matmul.default", wrong)}).judge(graph, [x, w])
    assert found.verdict == "discrepant" and "float16" not in found.detail


@pytest.mark.parametrize(
    "kind", [{}, {"scale": OTHER, "ties": 200}, {"ties": 200}, {"conv": True}, {"full": True}, {"small": True}]
)
def test_a_right_platform_is_calm(kind: dict[str, Any]) -> None:
    assert judged(None, **kind).verdict == "rounding"


def test_a_quotient_in_place_of_a_product_with_the_reciprocal_is_rounding() -> None:
    """Some operands are ties up to rounding: either step may be taken, and what follows from it."""
    quotient = at("aten.mul.Tensor", lambda y, a: a[0] / SCALE if isinstance(a[1], float) and a[1] > 1 else None)
    _, arrays = layer(ties=200)
    scaled = torch.from_numpy(arrays[0])
    steps = [torch.round(scaled * float(np.float32(1 / SCALE))), torch.round(scaled / SCALE)]
    assert int((steps[0] != steps[1]).sum()) > 0, "some ties fall on the other side"
    assert judged(quotient, ties=200).verdict == "rounding"


def step_off(where: Callable[[torch.Tensor], torch.Tensor], steps: float) -> Fault:
    """Moves the first quantised element for which this holds of its operand."""

    def change(result: torch.Tensor, args: Sequence[Any]) -> torch.Tensor | None:
        flat = where(args[0]).flatten().nonzero()
        if not len(flat):
            return None
        moved = result.clone()
        moved.view(-1)[flat[0]] += steps
        return moved

    return at("aten.round.default", change)


def tie(x: torch.Tensor) -> torch.Tensor:
    return ((x - x.floor()) - 0.5).abs() < 1e-5


@pytest.mark.parametrize(("where", "steps"), [(lambda x: ~tie(x), 1.0), (tie, -1.0), (tie, 2.0)])
def test_a_step_away_from_a_tie_and_two_steps_at_one_are_findings(where: Any, steps: float) -> None:
    """The first operand is 0.5 up to its rounding: 0 and 1 may be taken."""
    found = judged(step_off(where, steps), ties=1, shown="q")
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.op == "aten.round.default"


@pytest.mark.parametrize("nudge", [1 - 2**-23, 1 + 2**-23])
def test_a_product_in_its_last_place_may_take_either_step_at_a_tie(nudge: float) -> None:
    found = judged(at("aten.mul.Tensor", lambda y, a: y * nudge), ties=200, shown="q")
    assert found.verdict == "rounding"


DTYPES = ("bool", "uint8", "int64", "float32", "float64", "complex64")
#: What PyTorch lacks.
MISSING = {("clamp", "bool"), ("clamp", "complex64"), ("matmul", "bool")}
OPERATORS = [(op, dtype) for op in ("add", "mul", "clamp", "matmul") for dtype in DTYPES if (op, dtype) not in MISSING]


@pytest.mark.parametrize(("op", "dtype"), OPERATORS)
def test_a_wrong_operator_of_any_dtype_is_found(op: str, dtype: str) -> None:
    arrays = [np.random.default_rng(seed).integers(0, 2, (4, 6)).astype(dtype) for seed in range(2)]
    overload = f"aten.{op}.{'default' if op == 'matmul' else 'Tensor'}"
    arrays[1] = arrays[1].T.copy() if op == "matmul" else arrays[1]
    graph = build(arrays, [("y", overload, "i0", "i1")], ["y"])
    wrong = at(overload, lambda y, a: (y + 1 if dtype != "bool" else ~y).to(y.dtype))
    found = Bench({PLATFORM: wrong}).judge(graph, arrays)
    assert (found.verdict, found.blame) == ("discrepant", "platform")


@pytest.mark.parametrize("op", ["aten.mul.Tensor", "aten.div.Tensor"])
def test_an_exact_product_that_is_off_in_its_last_place_is_no_finding(op: str) -> None:
    """IEEE 754 rounds nothing there, and an accelerator may."""
    x = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    graph = build([x], [("a", op, "i0", 4.0), ("y", "aten.exp.default", "a")], ["y"])
    assert Bench({PLATFORM: at(op, lambda y, a: y * (1 + 2**-23))}).judge(graph, [x]).verdict == "rounding"


def test_a_fault_of_fused_operators_is_found() -> None:
    """A kernel that scales in float16 and rounds: each operator by itself is right."""

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        made = graph.producer[graph.nodes[index].args[0].index] if graph.nodes[index].args else -1
        fused = graph.nodes[index].op == "aten.round.default" and made >= 0
        if not fused or graph.nodes[made].op != "aten.mul.Tensor":
            return result
        return args[0].half().float().round()

    found = judged(fault)
    assert (found.verdict, found.blame) == ("discrepant", "platform")
    assert found.culprit is not None and found.culprit.op == "aten.mul.Tensor+aten.round.default"


def test_a_convolution_that_computes_with_fractions_is_calm() -> None:
    """Winograd's algorithm gives whole numbers up to rounding."""
    fractions = at("aten.conv2d.default", lambda y, a: F.conv2d(a[0] / 3, a[1]) * 3)
    assert judged(fractions, conv=True).verdict == "rounding"
