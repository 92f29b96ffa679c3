"""The sentence of a finding shows one element that is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.bench import PLATFORM, Bench, build, normal, one_element, wrong_at
from mindgap.judge.oracle import Oracle
from mindgap.judge.trace.example import extent
from mindgap.judge.trace.single_operators import Confirmed


def detail(op: str, args: tuple[Any, ...], arrays: list[Any], damage: Any) -> str:
    graph = build(arrays, [("a", op, *args)], ["a"])
    return Bench({PLATFORM: wrong_at(op.split(".")[1], damage)}).judge(graph, arrays).detail


def put(place: tuple[int, ...], value: float) -> Any:
    def damage(y: torch.Tensor) -> torch.Tensor:
        y[place] = value
        return y

    return damage


INT8 = [np.array([[127, 1], [-128, 100]], np.int8), np.array([[1, 1], [-1, 27]], np.int8)]


@pytest.mark.parametrize(
    ("place", "given", "sentence"),
    [
        ((0, 0), 127, "127 + 1 gave 127; int8 wraps to -128"),
        ((1, 0), -128, "-128 + -1 gave -128; int8 wraps to 127"),
        ((0, 1), 5, "1 + 1 gave 5; right is 2"),
    ],
)
def test_integers_with_their_operands(place: tuple[int, ...], given: int, sentence: str) -> None:
    found = detail("aten.add.Tensor", ("i0", "i1"), INT8, put(place, given))
    assert found.startswith(f"{sentence} (wrong on equal operands in 1 of 4 elements, on {PLATFORM}: aten.add.Tensor)")


def test_the_element_that_is_furthest_off_is_shown() -> None:
    x = np.array([1.0, 4.0, 9.0, 16.0], np.float32)
    found = detail("aten.sqrt.default", ("i0",), [x], lambda y: y + torch.tensor([0, 0.5, 7.0, 0.25]))
    assert found.startswith("sqrt(9.0) gave 10.0; right is 3.0 (")


def test_operands_are_broadcast_and_numbers_are_shown() -> None:
    x, y = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([10.0, 20.0], np.float32)
    assert detail("aten.mul.Tensor", ("i0", "i1"), [x, y], put((1, 0), 31.0)).startswith(
        "3.0 * 10.0 gave 31.0; right is 30.0"
    )
    assert detail("aten.pow.Tensor_Scalar", ("i0", 3), [x], put((0, 1), 9.0)).startswith(
        "2.0 ** 3 gave 9.0; right is 8.0"
    )


def test_other_operators_show_the_place() -> None:
    found = detail("aten.cumsum.default", ("i0", 0), [np.arange(4, dtype=np.int64)], put((2,), 7))
    assert found.startswith("element [2] of cumsum is 7; right is 3 (")
    whole = detail("aten.sum.default", ("i0",), [np.arange(4, dtype=np.int64)], lambda y: y + 1)
    assert whole.startswith("sum is 7; right is 6 (")


def test_classes_are_counted() -> None:
    x = np.linspace(1, 2, 40, dtype=np.float32)

    def damage(y: torch.Tensor) -> torch.Tensor:
        y[[3, 8]] = float("nan")
        y[5] = float("inf")
        return y

    found = detail("aten.log.default", ("i0",), [x], damage)
    assert "NaN in 2 of 40 elements, infinity in 1 of 40 elements" in found
    assert found.startswith("log(") and "gave nan; right is" in found


def test_a_finite_number_where_infinity_is_right() -> None:
    found = detail("aten.reciprocal.default", ("i0",), [np.array([0.0, 2.0], np.float32)], put((0,), 1.0))
    assert (
        found.startswith("reciprocal(0.0) gave 1.0; right is inf (") and "a finite number in 1 of 2 elements" in found
    )


def test_a_fused_set_has_no_operands_to_show() -> None:
    arrays = [normal(8, 16), normal(16, 16, seed=1)]
    graph = build(arrays, [("m", "aten.mm.default", "i0", "i1"), ("r", "aten.relu.default", "m")], ["r"])

    def fault(g: Any, index: int, result: Any, args: Any) -> Any:
        pair = len(g.nodes) == 2 and len(g.outputs) == 1
        return one_element(5, 0.5)(result.clone()) if pair and index == 1 else result

    found = Bench({PLATFORM: fault}).judge(graph, arrays)
    assert found.verdict == "discrepant" and found.detail.startswith("wrong on equal operands")


def test_the_element_is_of_a_result_that_is_wrong() -> None:
    """The variance is rounded otherwise, and the mean is wrong."""
    arrays = [np.array([1.0, 2.0, 4.0], np.float32)]
    graph = build(arrays, [("a", "aten.var_mean.default", "i0", True)], ["a.0", "a.1"])

    def fault(graph: Any, index: int, result: Any, args: Any) -> Any:
        variance, mean = result
        return torch.nextafter(variance, variance + 1), mean * 3

    found = Bench({PLATFORM: fault}).judge(graph, arrays)
    assert found.culprit is not None and found.culprit.op == "aten.var_mean.default"
    assert found.detail.startswith("result 1 of var_mean is 7.0; right is 2.3333333 (")


def test_a_bulk_beyond_rounding_without_one_element_has_no_count() -> None:
    x = np.ones(40, np.float32)
    graph = build([x], [("a", "aten.exp.default", "i0")], ["a"])
    confirmed = Confirmed((0,), "reduced_precision", 9.0, {1: x}, count=0)
    assert extent(Oracle(graph, [x]), confirmed) == "most of 40 elements, none beyond its limit alone"
