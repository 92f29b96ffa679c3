"""Several faults in one graph are all named; what is wrong only downstream of one is not."""

from __future__ import annotations

from typing import Any

import pytest

from judge.oracle.bench import (
    PLATFORM,
    REFERENCE,
    Bench,
    bent,
    build,
    chain,
    fused_fault,
    normal,
    one_element,
    scaled,
    together,
    wrong_at,
)
from mindgap.judge.trace import independent_faults
from mindgap.judge.trace.judgement import Judgement


def named(found: Judgement) -> list[tuple[str, tuple[int, ...], str, str | None]]:
    return [
        (each.fault.culprit.op.split(".")[1] if each.fault.culprit else "", each.fault.nodes, each.fault.verdict,
         each.fault.blame)
        for each in found.faults
    ]  # fmt: skip


def test_one_fault_is_one_and_costs_no_more_runs() -> None:
    graph, arrays = chain()
    bench = Bench({PLATFORM: wrong_at("gelu", bent(0.1))})
    found = bench.judge(graph, arrays, trace=False)
    assert named(found) == [("gelu", (1,), "discrepant", "platform")]
    # Both sides whole, every operator alone on both sides, and the culprit once more.
    assert bench.jobs == 5
    first = found.faults[0].fault
    assert (first.culprit, first.detail, first.example) == (found.culprit, found.detail, found.example)


def test_two_faults_in_a_chain_one_downstream_of_the_other() -> None:
    graph, arrays = chain()
    faults = together(wrong_at("gelu", bent(0.1)), wrong_at("softmax", one_element(3, 0.1)))
    bench = Bench({PLATFORM: faults})
    found = bench.judge(graph, arrays, trace=False)
    assert named(found) == [("gelu", (1,), "discrepant", "platform"), ("softmax", (4,), "discrepant", "platform")]
    assert found.culprit is not None and found.culprit.op == "aten.gelu.default"
    assert bench.jobs == 6, "one run for the second fault"
    assert all(each.alone is not None and each.fault.example is not None for each in found.faults)


def test_three_faults_of_unlike_kinds_in_branches() -> None:
    arrays = [normal(8, 8)]
    calls = [("a", "aten.exp.default", "i0"), ("b", "aten.sin.default", "i0"), ("c", "aten.cos.default", "i0"),
             ("d", "aten.add.Tensor", "a", "b"), ("e", "aten.add.Tensor", "d", "c")]  # fmt: skip
    graph = build(arrays, calls, ["e"])
    faults = together(
        wrong_at("exp", one_element(2, 0.5)),
        wrong_at("sin", one_element(5, float("nan"))),
        wrong_at("cos", lambda y: y.bfloat16().float()),
    )
    found = Bench({PLATFORM: faults}).judge(graph, arrays)
    assert [(op, kind) for op, _, kind, _ in named(found)] == [
        ("exp", "discrepant"), ("sin", "exceptional"), ("cos", "reduced_precision"),
    ]  # fmt: skip


def test_calls_of_one_operator_are_one_fault_with_several_nodes() -> None:
    graph, arrays = chain()
    faults = together(wrong_at("linear", one_element(7, 2.0)), wrong_at("softmax", one_element(3, 0.1)))
    found = Bench({PLATFORM: faults}).judge(graph, arrays)
    assert [(op, nodes) for op, nodes, _, _ in named(found)] == [("linear", (0, 3)), ("softmax", (4,))]


def test_a_fault_that_another_hides_is_found() -> None:
    """The multiplication gives zero for all operands: no output shows what the sine did."""
    arrays = [normal(8, 8)]
    calls = [("a", "aten.sin.default", "i0"), ("b", "aten.mul.Tensor", "a", 2.0)]
    graph = build(arrays, calls, ["b"])
    faults = together(wrong_at("sin", one_element(5, 0.3)), wrong_at("mul", scaled(0.0)))
    found = Bench({PLATFORM: faults}).judge(graph, arrays)
    assert [(op, nodes) for op, nodes, _, _ in named(found)] == [("sin", (0,)), ("mul", (1,))]


def test_what_reads_wrong_values_is_no_fault() -> None:
    arrays = [normal(8, 8)]
    calls = [("a", "aten.sin.default", "i0"), ("b", "aten.exp.default", "a"), ("c", "aten.sigmoid.default", "b"),
             ("d", "aten.cumsum.default", "c", 0)]  # fmt: skip
    graph = build(arrays, calls, ["d", "b"])
    found = Bench({PLATFORM: wrong_at("sin", bent(0.5))}).judge(graph, arrays)
    assert named(found) == [("sin", (0,), "discrepant", "platform")]


def test_a_wrong_operator_that_no_output_shows_is_no_fault_beside_another() -> None:
    """Without the first fault the row would be calm: what is wrong at the second is below what rounding does later."""
    arrays = [normal(8, 8)]
    calls = [("a", "aten.sin.default", "i0"), ("b", "aten.mul.Tensor", "a", 1e-12), ("c", "aten.cos.default", "i0"),
             ("d", "aten.add.Tensor", "c", "b")]  # fmt: skip
    graph = build(arrays, calls, ["d"])
    faint, loud = wrong_at("sin", one_element(5, 0.3)), wrong_at("cos", one_element(9, 0.3))
    assert not Bench({PLATFORM: faint}).judge(graph, arrays).faults
    found = Bench({PLATFORM: together(faint, loud)}).judge(graph, arrays)
    assert [op for op, *_ in named(found)] == ["cos"]


def test_both_sides_may_be_wrong_at_unlike_operators() -> None:
    graph, arrays = chain()
    faults = {PLATFORM: wrong_at("softmax", one_element(3, 0.1)), REFERENCE: wrong_at("gelu", bent(0.1))}
    found = Bench(faults).judge(graph, arrays)
    assert named(found) == [("softmax", (4,), "discrepant", "platform"), ("gelu", (1,), "discrepant", "reference")]


def test_both_sides_wrong_at_one_node_is_one_fault() -> None:
    graph, arrays = chain()
    faults = {PLATFORM: wrong_at("gelu", bent(0.1)), REFERENCE: wrong_at("gelu", bent(-0.2))}
    assert named(Bench(faults).judge(graph, arrays)) == [("gelu", (1,), "discrepant", "undecided")]


def test_what_is_wrong_only_beside_others_is_no_further_fault() -> None:
    graph, arrays = chain()
    beside, own = wrong_at("softmax", one_element(3, 0.1)), wrong_at("gelu", bent(0.1))

    def fault(g: Any, index: int, result: Any, args: Any) -> Any:
        return own(g, index, beside(g, index, result, args) if len(g.outputs) > 2 else result, args)

    assert [op for op, *_ in named(Bench({PLATFORM: fault}).judge(graph, arrays))] == ["gelu"]


def test_operators_that_are_wrong_only_together_beside_one_that_is_wrong_alone() -> None:
    """Of an output that the first fault does not reach, windows of operators are tried."""
    arrays = [normal(8, 8)]
    calls = [("a", "aten.sin.default", "i0"), ("b", "aten.relu.default", "a"), ("c", "aten.sigmoid.default", "b"),
             ("d", "aten.cos.default", "i0")]  # fmt: skip
    graph = build(arrays, calls, ["c", "d"])
    faults = together(fused_fault, wrong_at("cos", one_element(5, 0.3)))
    found = Bench({PLATFORM: faults}).judge(graph, arrays)
    assert found.culprit is not None and found.culprit.op == "aten.cos.default"
    assert [each.fault.culprit.op for each in found.faults if each.fault.culprit] == [
        "aten.cos.default", "aten.relu.default+aten.sigmoid.default",
    ]  # fmt: skip
    assert found.faults[1].fault.nodes == (1, 2)


def test_beyond_the_limit_the_operator_that_was_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(independent_faults, "MAX_RUNS", 1)
    arrays = [normal(8, 8)]
    ops = ("exp", "sin", "cos", "tanh")
    calls = [(op, f"aten.{op}.default", "i0") for op in ops]
    graph = build(arrays, calls, ops)
    faults = together(*(wrong_at(op, one_element(5, 0.3)) for op in ops))
    bench = Bench({PLATFORM: faults})
    found = bench.judge(graph, arrays, trace=False)
    assert [op for op, *_ in named(found)] == ["exp", "sin"] and bench.jobs == 6
    (weak,) = [each for each in found.weaknesses if each.missing == "independent fault"]
    assert (weak.node, weak.op) == (2, "aten.cos.default") and "limit" in weak.reason


def test_values_in_16_bits_have_faults_that_no_output_shows() -> None:
    graph, arrays = chain("bfloat16")
    faults = together(wrong_at("layer_norm", one_element(50, 0.25)), wrong_at("gelu", one_element(3, 0.25)))
    found = Bench({PLATFORM: faults}).judge(graph, arrays)
    assert [op for op, *_ in named(found)] == ["layer_norm", "gelu"]


def test_right_numbers_in_another_dtype_are_a_fault_beside_another() -> None:
    arrays = [normal(8, 8)]
    calls = [("a", "aten.sin.default", "i0"), ("b", "aten.exp.default", "a"), ("c", "aten.cos.default", "i0")]
    graph = build(arrays, calls, ["b", "c"])
    faults = together(wrong_at("cos", one_element(5, 0.3)), wrong_at("sin", lambda y: y.double()))
    found = Bench({PLATFORM: faults}).judge(graph, arrays)
    assert {(op, kind) for op, _, kind, _ in named(found)} == {("cos", "discrepant"), ("sin", "structural")}
