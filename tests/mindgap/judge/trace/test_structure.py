"""Shapes and dtypes: the two sides against each other first, then against the graph, then against the shadow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.bench import PLATFORM, REFERENCE, Bench, build, normal, together, wrong_at
from mindgap.aten.tensors import TORCH_DTYPES, to_numpy
from mindgap.graph import DType, Graph, TensorSpec
from mindgap.judge.oracle import Examined, Oracle, local_expectation
from mindgap.judge.trace.judge import Judge
from mindgap.judge.trace.single_operators import judge_single
from mindgap.judge.trace.structure import side_to_blame, sides_first
from mindgap.judge.trace.subgraphs import Subgraph, SubgraphResult
from mindgap.run.outcome import Job


def bag() -> tuple[Graph, list[Any]]:
    """A bag of embeddings and a product that rounds. Eager leaves offset2bag empty; float64 arithmetic fills it."""
    indices, offsets = np.array([1, 2, 3, 4, 0, 2, 9, 7, 5], np.int64), np.array([0, 3, 6], np.int64)
    arrays = [normal(10, 4), indices, offsets, normal(4, 4, seed=3)]
    calls = [
        ("e", "aten.embedding_bag.padding_idx", "i0", "i1", "i2", False, 0, False, None, False, None),
        ("m", "aten.mm.default", "e.0", "i3"),
    ]  # fmt: skip
    return build(arrays, calls, ["m", "e.1", "e.2", "e.3"]), arrays


def last_bits(y: torch.Tensor) -> torch.Tensor:
    return y * (1 + 2**-23)


def test_a_shape_that_the_shadow_alone_has_is_no_finding() -> None:
    graph, arrays = bag()
    filled = [spec.shape for spec in graph.nodes[0].outputs if spec is not None]
    assert filled[1] == (0,), "eager fills offset2bag: this program shows nothing then"
    bench = Bench({PLATFORM: wrong_at("mm", last_bits)})
    given = dict(enumerate(arrays))
    for internal in (False, True):
        judge = Judge(graph, arrays, bench.execute, REFERENCE, internal=internal)
        found = judge.judge(*(bench.execute(Job(name, graph, inputs=given)) for name in (PLATFORM, REFERENCE)))
        assert found.verdict == "rounding" and found.culprit is None
        assert found.verdicts == ("rounding", "identical", "identical", "identical")


def test_values_of_which_the_shadow_is_silent_are_said_to_be_unknown() -> None:
    graph, arrays = bag()

    def filled(g: Graph, index: int, result: Any, args: Any) -> Any:
        """offset2bag in a length that neither the graph nor the shadow has."""
        return result if index else (result[0], torch.zeros(4, dtype=torch.int64), *result[2:])

    bench = Bench({PLATFORM: filled, REFERENCE: filled})
    judge = Judge(graph, arrays, bench.execute, REFERENCE, internal=True)
    given = dict(enumerate(arrays))
    ours, theirs = (bench.execute(Job(name, graph, inputs=given)) for name in (PLATFORM, REFERENCE))
    assert theirs.arrays is not None
    theirs = replace(theirs, arrays=(*theirs.arrays[:1], theirs.arrays[1] + 5, *theirs.arrays[2:]))
    found = judge.judge(ours, theirs)
    assert found.verdict == "ill_conditioned" and "the float64 shadow has another shape" in found.detail


def test_sides_that_agree_against_the_shadow_and_the_graph_are_no_finding() -> None:
    """Both give a dtype that the graph does not declare: who captured it had another version."""
    x = normal(8, 8)
    graph = build([x], [("s", "aten.sort.default", "i0"), ("t", "aten.tanh.default", "s.0")], ["t", "s.1"])
    narrow = wrong_at("sort", lambda y: y.to(torch.int32), 1)
    assert Bench({PLATFORM: narrow, REFERENCE: narrow}).judge(graph, [x]).verdict == "rounding"
    one = Bench({PLATFORM: narrow}).judge(graph, [x])
    assert (one.verdict, one.blame) == ("structural", "platform")
    assert one.culprit is not None and one.culprit.op == "aten.sort.default"
    other = Bench({REFERENCE: narrow}).judge(graph, [x])
    assert (other.verdict, other.blame) == ("structural", "reference")


def test_another_shape_of_an_intermediate_value_is_found_at_its_operator() -> None:
    x = normal(8, 8)
    graph = build([x], [("t", "aten.tanh.default", "i0"), ("s", "aten.sum.default", "t")], ["s"])
    found = Bench({PLATFORM: wrong_at("tanh", lambda y: y[:4].contiguous())}).judge(graph, [x])
    assert found.verdict == "structural"
    assert found.culprit is not None and found.culprit.op == "aten.tanh.default"


def in_sixteen_bits() -> tuple[Graph, list[Any]]:
    """A value that is converted back to bfloat16 before an output shows it, and a second output."""
    x = normal(8, 8, dtype="bfloat16")
    calls = [
        ("s", "aten.sin.default", "i0"), ("t", "aten.exp.default", "s"),
        ("c", "aten.to.dtype", "t", DType("bfloat16")), ("e", "aten.tanh.default", "i0"),
    ]  # fmt: skip
    return build([x], calls, ["c", "e"]), [x]


def test_right_values_in_another_dtype_that_no_output_shows_are_no_finding() -> None:
    """As eager PyTorch gives the statistics of a bfloat16 batch in float32, where the operator declares bfloat16."""
    graph, arrays = in_sixteen_bits()
    wide = wrong_at("sin", lambda y: y.float())
    for fault in (wide, together(wide, wrong_at("tanh", last_bits))):
        found = Bench({PLATFORM: fault}).judge(graph, arrays)
        assert found.verdict in ("identical", "rounding") and found.culprit is None, found.detail
    found = Bench({PLATFORM: together(wide, wrong_at("tanh", lambda y: -y))}).judge(graph, arrays)
    assert found.verdict == "discrepant" and [f.fault.culprit.op for f in found.faults if f.fault.culprit] == [
        "aten.tanh.default"
    ]


def test_wrong_values_in_another_dtype_are_a_finding_that_no_output_need_show() -> None:
    """relu hides what is wrong; values in 16 bits have faults that no output shows."""
    x = to_numpy(-torch.rand(8, 8, generator=torch.Generator().manual_seed(1)).bfloat16())
    calls = [
        ("s", "aten.sin.default", "i0"),
        ("r", "aten.relu.default", "s"),
        ("c", "aten.to.dtype", "r", DType("bfloat16")),
    ]
    graph = build([x], calls, ["c"])
    right = Bench({PLATFORM: wrong_at("sin", lambda y: y.float())}).judge(graph, [x])
    assert right.verdict in ("identical", "rounding"), right.detail
    wrong = Bench({PLATFORM: wrong_at("sin", lambda y: y.float() * 1.5)}).judge(graph, [x])
    assert wrong.culprit is not None and wrong.culprit.op == "aten.sin.default"


def test_many_mere_dtypes_hide_no_wrong_operator() -> None:
    x = normal(8, 8, dtype="bfloat16")
    ops = [op for _ in range(9) for op in ("sin", "cos", "tanh")]
    calls = [(f"v{k}", f"aten.{op}.default", "i0") for k, op in enumerate(ops)]
    calls += [(f"c{k}", "aten.to.dtype", f"v{k}", DType("bfloat16")) for k in range(len(ops))]
    calls += [("w", "aten.exp.default", "i0"), ("z", "aten.clamp.default", "w", 100.0)]
    graph = build([x], calls, [*(f"c{k}" for k in range(len(ops))), "z"])
    faults = together(
        *(wrong_at(op, lambda y: y.float()) for op in ("sin", "cos", "tanh")), wrong_at("exp", lambda y: y + 1)
    )
    found = Bench({PLATFORM: faults}).judge(graph, [x], trace=False)
    assert found.culprit is not None and found.culprit.op == "aten.exp.default"


@pytest.mark.parametrize(
    ("declared", "given", "right"),
    [
        ("int64", torch.tensor([2.0, 3.0]), True), ("int64", torch.tensor([2.5, 3.0]), False),
        ("int8", torch.tensor([200, 3]), False), ("bool", torch.tensor([255, 1], dtype=torch.uint8), False),
        ("bool", torch.tensor([1, 1], dtype=torch.uint8), True), ("float32", torch.tensor([2 + 0j, 3 + 0j]), False),
        ("float32", torch.tensor([2.0, 3.0], dtype=torch.float64), True),
    ],
)  # fmt: skip
def test_only_what_converts_without_loss_is_right(declared: str, given: torch.Tensor, right: bool) -> None:
    value = given.real.to(TORCH_DTYPES[declared])
    graph = build([value.numpy()], [("c", "aten.clone.default", "i0")], ["c"])
    expected = local_expectation(Oracle(graph, [value.numpy()]), 0)
    one = judge_single(SubgraphResult(Subgraph((0,), graph, (0,), graph.outputs), (given.numpy(),), None), expected)
    assert one is not None and one.kind == "structural" and one.retyped == right


def test_another_shape_is_a_finding_where_no_operator_can_be_confirmed() -> None:
    x = normal(8, 8)
    graph = build([x], [("t", "aten.tanh.default", "i0"), ("s", "aten.exp.default", "t")], ["t", "s"])

    def whole_graph_only(g: Graph, index: int, result: Any, args: Any) -> Any:
        return result[:4].contiguous() if len(g.outputs) == 2 and len(g.nodes) == 2 and index == 1 else result

    found = Bench({PLATFORM: whole_graph_only}).judge(graph, [x])
    assert (found.verdict, found.blame) == ("structural", "platform")
    assert found.verdicts == ("identical", "structural")


def test_the_side_that_gives_what_the_graph_declares_is_right() -> None:
    spec = TensorSpec.contiguous("float32", (2, 3))
    right, wrong = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    assert side_to_blame(spec, wrong, right) == "platform"
    assert side_to_blame(spec, right, wrong) == "reference"
    assert side_to_blame(spec, wrong, np.zeros(6, np.float32)) == "undecided"


def test_only_what_both_sides_share_is_silenced() -> None:
    array = np.zeros(3, np.float32)
    structural = [Examined("structural")]
    (mine,), (reference,) = sides_first(structural, structural, [array], [array])
    assert mine.silent and reference.silent and mine.kind == "calm"
    (mine,), _ = sides_first(structural, [Examined("calm")], [array], [np.zeros(4, np.float32)])
    assert mine.kind == "structural"
