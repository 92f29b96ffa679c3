"""Cuts, singles and the second opinion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from judge.oracle.applied import applied, normal
from judge.oracle.bench import PLATFORM, Bench, build, chain, normal as array, one_element, wrong_at
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Graph, TensorSpec
from mindgap.judge.oracle import Oracle
from mindgap.judge.trace.error_propagation import breaks
from mindgap.judge.trace.independent import second_opinion
from mindgap.judge.trace.single_operators import SingleOperators
from mindgap.judge.trace.subgraphs import cut, leading_to, run_subgraphs, window, written_as_it_ran


def lockstep_of(graph: Graph, arrays: list[Any], bench: Bench) -> SingleOperators:
    return SingleOperators(Oracle(graph, arrays), [n.op for n in graph.nodes], bench.execute, 60.0)


def test_a_cut_keeps_what_the_rest_reads() -> None:
    graph, arrays = chain()
    found = cut(graph, [1, 2])
    assert [n.op for n in found.graph.nodes] == ["aten.gelu.default", "aten.layer_norm.default"]
    assert found.borders == (3,) and found.outputs == (5,)
    oracle = Oracle(graph, arrays)
    values = {3: to_numpy(oracle.step.values[3])}
    result = run_subgraphs([found], values, PLATFORM, Bench().execute)[0]
    assert result.arrays is not None
    expected = torch.layer_norm(torch.nn.functional.gelu(to_torch(values[3])), [48])
    assert torch.equal(to_torch(result.arrays[0]), expected)


def test_windows_follow_producers() -> None:
    graph, _ = chain()
    assert window(graph, 4, 3) == (2, 3, 4) and window(graph, 0, 5) == (0,)


def test_what_leads_to_an_output_is_told_from_what_does_not() -> None:
    arrays = [array(4, 4)]
    calls = [("a", "aten.exp.default", "i0"), ("b", "aten.sin.default", "i0"), ("c", "aten.add.Tensor", "a", "i0"),
             ("d", "aten.cos.default", "b")]  # fmt: skip
    graph = build(arrays, calls, ["c", "d"])
    assert leading_to(graph, graph.outputs[:1]) == [0, 2] and leading_to(graph, graph.outputs) == [0, 1, 2, 3]
    assert leading_to(graph, [0]) == leading_to(graph, []) == []


def test_all_single_operators_run_in_one_job() -> None:
    graph, arrays = chain()
    bench = Bench()
    assert lockstep_of(graph, arrays, bench).confirmed(PLATFORM) == [] and bench.jobs == 1


def test_a_cut_that_fails_alone_does_not_hide_the_others() -> None:
    graph, arrays = chain()

    def refuse(g: Graph) -> None:
        if any(n.op == "aten.gelu.default" for n in g.nodes):
            raise RuntimeError("no gelu here")

    bench = Bench({PLATFORM: wrong_at("softmax", one_element(3, 0.2))}, {PLATFORM: refuse})
    found = lockstep_of(graph, arrays, bench).confirmed(PLATFORM)
    assert [(c.nodes, c.kind) for c in found] == [((4,), "discrepant")], "what only fails alone says nothing"


def test_every_faulty_operator_is_confirmed_once() -> None:
    graph, arrays = chain()
    found = lockstep_of(graph, arrays, Bench({PLATFORM: wrong_at("linear", one_element(3, 0.2))})).confirmed(PLATFORM)
    assert [c.nodes for c in found] == [(0,), (3,)]


def test_an_operator_runs_as_it_was_written() -> None:
    graph = build([array(4)], [("a", "aten.relu.default", "i0")], ["a"])
    assert written_as_it_ran(cut(graph, [0]), "aten.relu_.default").graph.nodes[0].op == "aten.relu_.default"
    assert written_as_it_ran(cut(graph, [0]), "aten.sin_.default").graph.nodes[0].op == "aten.relu.default"
    wider = build([array(1, 4), array(3, 4)], [("a", "aten.add.Tensor", "i0", "i1")], ["a"])
    assert written_as_it_ran(cut(wider, [0]), "aten.add_.Tensor").graph.nodes[0].op == "aten.add.Tensor"
    like = build([array(3, 4), array(1, 4)], [("a", "aten.add.Tensor", "i0", "i1")], ["a"])
    assert written_as_it_ran(cut(like, [0]), "aten.add_.Tensor").graph.nodes[0].op == "aten.add_.Tensor"


def test_whether_values_break_an_output() -> None:
    graph, arrays = chain()
    oracle = Oracle(graph, arrays)
    right = to_numpy(oracle.step.values[5])
    assert not breaks(oracle, {5: right})
    wrong = right.copy()
    wrong[0, 0] += 0.5
    assert breaks(oracle, {5: wrong})


X, Y = normal(6, 6), normal(6, 6, seed=1)
OPINIONS = {
    "numpy": applied("aten.mm.default", X, Y),
    "kernel positions": applied("aten.conv2d.default", normal(2, 4, 7, 7), normal(6, 2, 3, 3, seed=1),
                                normal(6, seed=2), [2, 1], [1, 2], [1, 2], 2),
    "decomposition": applied("aten.gelu.default", X),
    "reference": applied("aten.softmax.int", X, -1),
}  # fmt: skip


@pytest.mark.parametrize("route", OPINIONS)
def test_second_opinions_are_right(route: str) -> None:
    one = OPINIONS[route]
    opinion = second_opinion(one.oracle, 0)
    assert opinion is not None
    assert torch.allclose(opinion[0], one.oracle.wide[one.graph.outputs[0]].double(), rtol=1e-6, atol=1e-7)


def test_an_output_that_is_shown_twice_is_looked_at() -> None:
    arrays = [array(4, 4)]
    graph = build(arrays, [("a", "aten.exp.default", "i0"), ("b", "aten.sin.default", "a")], ["b", "a", "b"])
    oracle = Oracle(graph, arrays)
    values = to_numpy(oracle.step.values[1])
    assert not breaks(oracle, {1: values}) and breaks(oracle, {1: values * 1.5})


def test_a_cut_whose_operands_are_not_as_the_graph_says_is_left_out() -> None:
    """As an operator may give another shape on the processor at hand than where the graph was captured."""
    arrays = [array(3, 4)]
    graph = build(arrays, [("a", "aten.exp.default", "i0"), ("b", "aten.sin.default", "a")], ["b"])
    other = replace(graph.nodes[0], outputs=(TensorSpec.contiguous("float32", (2, 4)),))
    bench = Bench()
    singles = lockstep_of(replace(graph, nodes=(other, graph.nodes[1])), arrays, bench)
    results = list(singles.run([singles.cut([0]), singles.cut([1])], PLATFORM))
    assert [result.cut.nodes for result in results] == [(0,)]
