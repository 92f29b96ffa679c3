"""In-place writes that a platform loses: the smallest part of the captured graph that shows the loss is named."""

from __future__ import annotations

from typing import Any

from judge.oracle.bench import PLATFORM, Bench, build, normal, wrong_at
from mindgap.judge.trace.wrong_part import wrong_part

CALLS: list[tuple[Any, ...]] = [
    ("a", "aten.sin.default", "i1"),
    ("b", "aten.add_.Tensor", "i0", "a"),
    ("c", "aten.select.int", "b", 0, 1),
    ("d", "aten.neg_.default", "c"),
    ("e", "aten.cos.default", "i1"),
]


def lost_write(graph: Any, index: int, result: Any, args: Any) -> Any:
    """`neg_` on a view gives the right values, and does not write them to the memory that it shares."""
    node = graph.nodes[index]
    if node.op != "aten.neg_.default" or graph.producer[node.args[0].index] < 0:
        return result
    right = result.clone()
    result.neg_()
    return right


def test_a_write_through_a_view_is_traced_to_the_view_and_the_write() -> None:
    arrays = [normal(3, 4), normal(3, 4, seed=1)]
    graph = build(arrays, CALLS, ["i0", "d", "e"])
    bench = Bench(faults={PLATFORM: lost_write})
    found = bench.judge(graph, arrays, trace=False)
    assert found.verdict == "discrepant" and found.culprit is not None
    assert found.culprit.op == "aten.select.int+aten.neg_.default" and found.culprit.node == 3
    assert "only together: nodes 2, 3" in found.detail


def test_a_graph_that_is_right_when_it_runs_again_names_nothing() -> None:
    arrays = [normal(3, 4), normal(3, 4, seed=1)]
    part = wrong_part(build(arrays, CALLS, ["i0", "e"]), dict(enumerate(arrays)), PLATFORM, Bench().execute, 60.0)
    assert part.nodes == () and "right" in part.reason


def test_an_operator_that_is_wrong_alone_is_named_alone() -> None:
    arrays = [normal(3, 4), normal(3, 4, seed=1)]
    bench = Bench(faults={PLATFORM: wrong_at("cos", lambda y: y * 1.5)})
    found = bench.judge(build(arrays, CALLS, ["i0", "e"]), arrays, trace=False)
    assert found.culprit is not None and found.culprit.op == "aten.cos.default"
