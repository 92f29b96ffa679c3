"""Integers that are wrong as an output only, other kinds of outputs, and what an infinity or a channel may not hide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from judge.oracle.bench import build
from judge.quantised.cases import LIMITS, Call, Operand, drawn, numpy_of, quantised
from judge.quantised.test_examination import conv
from mindgap.graph import Array, DType, Graph
from mindgap.judge.quantised import QuantisedValue, confirmed, examine_quantised, quantised_values
from mindgap.judge.quantised.confirmation import AFTER, OTHER_AS_OUTPUT, UNCONFIRMED
from mindgap.onnx_files.format import ONNX_RULE
from mindgap.platforms.model_formats import QuantisationRule
from mindgap_runtimes.litert_files.format import TFLITE_RULE

ZERO = 100
STEP = 1 / 64


def quantise(value: str, name: str, scale: float, zero: int = ZERO, dtype: str = "uint8") -> list[Call]:
    high = np.iinfo(dtype).max
    return [
        (f"{name}s", "aten.div.Tensor", value, scale), (f"{name}r", "aten.round.default", f"{name}s"),
        (f"{name}a", "aten.add.Tensor", f"{name}r", zero), (f"{name}c", "aten.clamp.default", f"{name}a", 0, high),
        (name, "aten.to.dtype", f"{name}c", DType(dtype)), (f"{name}i", "aten.to.dtype", name, DType("int32")),
        (f"{name}z", "aten.sub.Tensor", f"{name}i", zero), (f"{name}f", "aten.to.dtype", f"{name}z", DType("float32")),
        (f"{name}d", "aten.mul.Tensor", f"{name}f", scale),
    ]  # fmt: skip


def integers(x: Any, scale: float, zero: int = ZERO) -> Array:
    return np.clip(np.rint(np.asarray(x, np.float64) / scale) + zero, 0, 255).astype(np.uint8)


def real(values: Array, scale: float, zero: int = ZERO) -> Array:
    return ((values.astype(np.int32) - zero).astype(np.float32) * np.float32(scale)).astype(np.float32)


@pytest.fixture
def x() -> Array:
    return (np.random.default_rng(0).normal(size=(4, 16)) * 0.7).astype(np.float32)


def tanh_graph(x: Array, after: list[Call], output: str) -> tuple[Graph, list[QuantisedValue]]:
    calls = [*quantise("i0", "p", 0.1), ("y", "aten.tanh.default", "pd"), *quantise("y", "q", STEP), *after]
    graph = build([x], calls, [output])
    return graph, quantised_values(graph)


def found(graph: Graph, x: Array, given: dict[int, Array], output: Array) -> list[tuple[str, str]]:
    examined = examine_quantised(graph, [x], given, [output])
    return [(each.kind, each.why) for each in confirmed(graph, [x], given, [output], False, examined)]


def test_integers_in_another_encoding_as_an_output_only_are_undecided(x: Array) -> None:
    graph, (first, second) = tanh_graph(x, [], "qd")
    p = integers(x, 0.1)
    right = integers(np.tanh(real(p, 0.1).astype(np.float64)), STEP)
    other = np.clip(np.rint(np.tanh(real(p, 0.1).astype(np.float64)) * 127) + 128, 0, 255).astype(np.uint8)
    given = {first.number: p, second.number: other}
    # The output holds the right values: the platform did not compute with what it showed.
    assert found(graph, x, given, real(right, STEP)) == [("right", ""), ("undecided", OTHER_AS_OUTPUT), ("right", "")]
    # The output is made of them.
    kinds = [kind for kind, _ in found(graph, x, given, real(other, STEP))]
    assert kinds == ["right", "discrepant", "right"]
    # The output is neither, by a step: what leads there is not known.
    step = np.clip(right.astype(int) + 1, 0, 255).astype(np.uint8)
    assert found(graph, x, given, real(step, STEP))[1:] == [("undecided", OTHER_AS_OUTPUT), ("undecided", AFTER)]


def test_what_follows_may_not_tell(x: Array) -> None:
    """The place of the largest element is the same in each encoding that rises."""
    graph, (first, second) = tanh_graph(x, [("m", "aten.argmax.default", "qd", 1)], "m")
    p = integers(x, 0.1)
    right = integers(np.tanh(real(p, 0.1).astype(np.float64)), STEP)
    shifted = (right.astype(int) + 20).astype(np.uint8)
    output = real(right, STEP).argmax(1)
    assert found(graph, x, {first.number: p, second.number: shifted}, output)[1] == ("undecided", UNCONFIRMED)


def test_integers_and_truth_values_among_the_outputs_are_judged(x: Array) -> None:
    for call, right in (
        (("m", "aten.argmax.default", "qd", 1), lambda y: y.argmax(1)),
        (("m", "aten.gt.Scalar", "qd", 0.0), lambda y: y > 0),
    ):
        graph, (first, second) = tanh_graph(x, [call], "m")
        p = integers(x, 0.1)
        q = integers(np.tanh(real(p, 0.1).astype(np.float64)), STEP)
        given, output = {first.number: p, second.number: q}, right(real(q, STEP))
        assert [kind for kind, _ in found(graph, x, given, output)] == ["right"] * 3
        wrong = ~output if output.dtype == bool else (output + 3) % 16
        assert [kind for kind, _ in found(graph, x, given, wrong)] == ["right", "right", "discrepant"]


def test_another_dtype_or_shape_is_a_finding_and_is_named() -> None:
    case = quantised(
        [Operand(drawn((4, 8), "int8"), 0.1)], [("v", "aten.mul.Tensor", "d0", 0.5)], lambda x: x * 0.5, "int8", 0.1
    )
    right = case.integers(case.x)
    assert case.examined(right).kind == "right"
    dtype, shape = case.examined(right.astype(np.int16)), case.examined(right.reshape(8, 4))
    assert (dtype.kind, dtype.form) == ("discrepant", "int16[4, 8] where int8[4, 8] is right")
    assert (shape.kind, shape.form) == ("discrepant", "int8[8, 4] where int8[4, 8] is right")


def test_an_infinity_hides_no_other_error(x: Array) -> None:
    positive = np.abs(x) + 1
    positive[0, 0] = 0
    graph = build([positive], [*quantise("i0", "p", 0.1, 0), ("y", "aten.log.default", "pd")], ["y"])
    (value,) = quantised_values(graph)
    p = integers(positive, 0.1, 0)
    with np.errstate(divide="ignore"):
        right = np.log(real(p, 0.1, 0))
    assert np.isinf(right).any()
    for output, kind in ((right, "right"), (np.where(np.arange(4)[:, None] > 0, -1000 * right, right), "discrepant")):
        examined = examine_quantised(graph, [positive], {value.number: p}, [output.astype(np.float32)], narrow=True)
        assert [each.kind for each in examined] == ["right", kind]


def offset(case: Any, channel: int, by: float) -> Array:
    steps = case.x.copy()
    steps[:, channel] += by
    return case.integers(steps)


def test_16_bits_hide_no_zero_point_and_no_bias() -> None:
    case = conv("uint16")
    noise = np.random.default_rng(0).normal(size=case.x.shape) * 15
    assert case.examined(case.integers(case.x + noise)).kind == "reduced_precision"
    assert case.examined(case.integers(case.x + noise), narrow=False).kind == "discrepant"
    for wrong in (offset(case, 3, 60), offset(case, 2, 50), case.integers(case.x) & ~np.uint16(63)):
        assert case.examined(wrong).kind == "discrepant"
    moved = case.integers(case.x + 40)
    moved.flat[0] += 1
    examined = case.examined(moved)
    assert examined.kind == "discrepant" and examined.rule.startswith("every element is off by 40")
    cut_off = np.clip(np.trunc(case.x) + case.zero, 0, 65535)
    cut_off.flat[0] += 1
    assert case.examined(cut_off.astype(np.uint16)).rule == "as if cut off toward zero, not rounded"


def test_a_channel_with_a_large_factor_widens_no_other() -> None:
    weights = np.random.default_rng(0).integers(-127, 128, (6, 4, 3, 3)).astype(np.int8)
    scales = np.array([0.001] * 5 + [0.3], np.float32)
    case = quantised(
        [Operand(drawn((1, 4, 12, 12), "uint8"), 1.0, 120), Operand(weights, scales)],
        [("v", "aten.conv2d.default", "d0", "d1")], numpy_of(F.conv2d), "uint8", 1.0,
    )  # fmt: skip
    steps = case.x.copy()
    steps[:, :5] *= 1 + 2.0**-9
    assert case.examined(case.integers(steps)).kind != "right"
    assert case.examined(case.integers(case.x)).kind == "right"


def test_a_given_factor_is_shifted_as_a_derived_one() -> None:
    """ONNX's `QLinearMatMul`: a sum of integers is multiplied by one factor."""
    numbers = np.random.default_rng(2)
    x, w = numbers.integers(-20, 20, (64, 4)).astype(np.int8), numbers.integers(-1, 2, (4, 16)).astype(np.int8)
    factor = np.asarray(np.float32(0.5) * np.float32(0.6))
    graph = build(
        [x, w, factor],
        [
            ("a", "aten.to.dtype", "i0", DType("int32")), ("b", "aten.to.dtype", "i1", DType("int32")),
            ("t", "aten.matmul.default", "a", "b"), ("f", "aten.to.dtype", "t", DType("float32")),
            ("v", "aten.mul.Tensor", "f", "i2"), ("r", "aten.round.default", "v"), ("z", "aten.add.Tensor", "r", 0.0),
            ("c", "aten.clamp.default", "z", -128, 127), ("q", "aten.to.dtype", "c", DType("int8")),
        ],
        ["q"],
    )  # fmt: skip
    (value,) = quantised_values(graph)
    total = torch.from_numpy(x.astype(np.float64) @ w.astype(np.float64)).numpy()
    shift = int(np.floor(-np.log2(float(factor))))
    product = np.floor(total * (float(factor) * 2**shift) + 0.5)
    twice = np.clip(np.sign(product) * np.floor(np.abs(product) / 2**shift + 0.5), -128, 127).astype(np.int8)
    (examined,) = examine_quantised(graph, [x, w, factor], {value.number: twice}, [twice])
    assert examined.kind == "right" and examined.by_factor > 0
    (wrong,) = examine_quantised(graph, [x, w, factor], {value.number: twice + np.int8(1)}, [twice + np.int8(1)])
    assert wrong.kind == "discrepant"


def test_litert_takes_either_side_of_a_tie_and_may_round_before_it_shifts() -> None:
    x = np.arange(-60, 60, dtype=np.int8).reshape(2, 60)

    def found(scale: float, steps: Array, rule: QuantisationRule, dtype: str = "int8") -> tuple[str, int]:
        """Of `x`, whose scale is 1, in other steps."""
        case = quantised(
            [Operand(x, 1.0)], [("v", "aten.relu.default", "d0")], lambda a: np.maximum(a, 0), dtype, scale
        )
        given = np.clip(steps + case.zero, *LIMITS[dtype]).astype(dtype)
        (one,) = examine_quantised(case.graph, case.inputs, {case.value.number: given}, [given], rule=rule)
        return one.kind, one.count

    half = np.maximum(x, 0) / 2.0
    even, up = np.rint(half), np.floor(half + 0.5)
    assert found(2.0, even, ONNX_RULE) == found(2.0, even, TFLITE_RULE) == found(2.0, up, TFLITE_RULE) == ("right", 0)
    assert found(2.0, up, ONNX_RULE) == ("discrepant", int((up != even).sum()))
    # 0.3 of a step, rounded to halves and then away from zero, is one step.
    third = np.maximum(x, 0) / 3.3
    twice = np.floor(np.floor(third * 2 + 0.5) / 2 + 0.5)
    assert (twice != np.rint(third)).any()
    assert found(3.3, twice, ONNX_RULE)[0] == "discrepant" and found(3.3, twice, TFLITE_RULE) == ("right", 0)
    for wrong in (np.floor(third), np.rint(third) + 1, np.where(third > 10, 0, np.rint(third))):
        assert found(3.3, wrong, TFLITE_RULE)[0] == "discrepant"


def test_sixteen_bits_have_a_factor_of_fifteen_in_litert() -> None:
    x = np.linspace(-32000, 32000, 400).astype(np.int16)
    case = quantised([Operand(x, 1.0)], [("v", "aten.relu.default", "d0")], lambda a: np.maximum(a, 0), "int16", 1.7)
    factor = np.round(2**15 / 1.7) / 2**15
    coarse = np.rint(np.maximum(x.astype(np.float64), 0) * (factor + 2.0**-17)).astype(np.int16)
    kinds = [
        examine_quantised(case.graph, case.inputs, {case.value.number: given}, [given], rule=rule)[0].kind
        for given in (coarse, (coarse + 2).astype(np.int16)) for rule in (ONNX_RULE, TFLITE_RULE)
    ]  # fmt: skip
    assert kinds == ["discrepant", "right", "discrepant", "discrepant"]


def test_moved_integers_are_judged_and_what_follows_is_computed_from_them() -> None:
    x = np.arange(-40, 40, dtype=np.int8).reshape(8, 10)
    factor = np.asarray(np.float32(0.5))
    graph = build(
        [x, factor],
        [
            ("m", "aten.flip.default", "i0", (1,)), ("f", "aten.to.dtype", "m", DType("float32")),
            ("v", "aten.mul.Tensor", "f", "i1"), ("r", "aten.round.default", "v"), ("z", "aten.add.Tensor", "r", 0.0),
            ("c", "aten.clamp.default", "z", -128, 127), ("q", "aten.to.dtype", "c", DType("int8")),
        ],
        ["q"],
    )  # fmt: skip
    (value,) = quantised_values(graph)
    moved = graph.results(0)[0]
    wrong = np.roll(x[:, ::-1], 1, axis=0).copy()
    after = np.rint(wrong / 2.0).astype(np.int8)
    found = {each.number: each.kind for each in examine_quantised(graph, [x, factor], {moved: wrong}, [after])}
    assert found == {moved: "discrepant", value.number: "right"}
    found = {each.number: each.kind for each in examine_quantised(graph, [x, factor], {}, [after])}
    assert found == {value.number: "discrepant"}, "what was not shown is not known"
