"""Results that no public function returns: calm unless asked for; what computes with them is judged as usual."""

from __future__ import annotations

from typing import Any

import pytest

from judge.oracle.bench import PLATFORM, REFERENCE, Bench, build, normal, one_element, scaled, wrong_at
from mindgap.graph import Graph
from mindgap.judge.oracle import internal_values
from mindgap.judge.trace.judge import Judge
from mindgap.run.outcome import Job

SAVED = 1


def normalised(*more: tuple[Any, ...], outputs: list[str]) -> tuple[Graph, list[Any]]:
    arrays = [normal(4, 3, 5, 5), normal(3, seed=1), normal(3, seed=2)]
    calls = [("n", "aten._native_batch_norm_legit.no_stats", "i0", "i1", "i2", True, 0.1, 1e-5), *more]
    return build(arrays, calls, outputs), arrays


@pytest.mark.parametrize("damage", [scaled(2.0), lambda y: y[:0].contiguous()], ids=["values", "shape"])
def test_a_saved_statistic_is_no_finding_unless_asked_for(damage: Any) -> None:
    graph, arrays = normalised(outputs=["n", "n.1", "n.2"])
    bench = Bench({PLATFORM: wrong_at("_native_batch_norm_legit", damage, SAVED)})
    found = bench.judge(graph, arrays)
    assert found.verdict == "internal" and found.culprit is None
    assert found.verdicts == ("identical", "internal", "identical")
    assert "no public function returns" in found.detail and "_native_batch_norm_legit" in found.detail
    given = dict(enumerate(arrays))
    asked = Judge(graph, arrays, bench.execute, REFERENCE, internal=True)
    judgement = asked.judge(*(bench.execute(Job(name, graph, inputs=given)) for name in (PLATFORM, REFERENCE)))
    assert judgement.verdict in ("discrepant", "structural") and judgement.culprit is not None


def test_rounding_of_a_saved_statistic_is_rounding() -> None:
    graph, arrays = normalised(outputs=["n", "n.1"])
    found = Bench({PLATFORM: wrong_at("_native_batch_norm_legit", scaled(1 + 2**-23), SAVED)}).judge(graph, arrays)
    assert found.verdicts == ("identical", "rounding")


def test_a_view_of_a_saved_statistic_is_as_internal() -> None:
    graph, arrays = normalised(("v", "aten.unsqueeze.default", "n.1", 0), outputs=["n", "v"])
    found = Bench({PLATFORM: wrong_at("_native_batch_norm_legit", scaled(2.0), SAVED)}).judge(graph, arrays)
    assert found.verdict == "internal"


def test_a_wrong_public_result_stands_beside_an_internal_one() -> None:
    graph, arrays = normalised(outputs=["n", "n.1"])

    def both(g: Graph, index: int, result: Any, args: Any) -> Any:
        return one_element(7, 0.5)(result[0].clone()), result[1] * 2, result[2]

    found = Bench({PLATFORM: both}).judge(graph, arrays)
    assert found.verdict == "discrepant" and found.verdicts == ("discrepant", "internal")
    assert found.culprit is not None and found.culprit.node == 0


def test_what_computes_with_a_saved_statistic_is_judged_as_usual() -> None:
    graph, arrays = normalised(("e", "aten.exp.default", "n.1"), outputs=["n", "e"])
    saved = Bench({PLATFORM: wrong_at("_native_batch_norm_legit", scaled(2.0), SAVED)}).judge(graph, arrays)
    assert saved.verdict == "discrepant"
    assert saved.culprit is not None and saved.culprit.op == "aten._native_batch_norm_legit.no_stats"
    reader = Bench({PLATFORM: wrong_at("exp", one_element(1, 0.1))}).judge(graph, arrays)
    assert reader.culprit is not None and reader.culprit.op == "aten.exp.default"


def test_a_saved_statistic_that_harms_nothing_is_no_finding_where_it_is_read() -> None:
    """The gradient of a normalisation in evaluation is handed the saved statistics and does not look at them."""
    arrays = [normal(4, 3, 5, 5), normal(3, seed=1), normal(3, seed=2), normal(3, seed=3), abs(normal(3, seed=4)) + 1]
    calls = [
        ("n", "aten._native_batch_norm_legit.no_stats", "i0", "i1", "i2", True, 0.1, 1e-5),
        ("b", "aten.native_batch_norm_backward.default", "i0", "i0", "i1", "i3", "i4", "n.1", "n.2", False, 1e-5,
         [True, True, True]),
    ]  # fmt: skip
    graph = build(arrays, calls, ["n", "b"])
    found = Bench({PLATFORM: wrong_at("_native_batch_norm_legit", scaled(2.0), SAVED)}).judge(graph, arrays)
    assert found.verdict == "rounding" and found.culprit is None


def test_which_values_are_internal_and_which_are_read() -> None:
    more = [("v", "aten.unsqueeze.default", "n.1", 0), ("e", "aten.exp.default", "v"), ("w", "aten.t.default", "v")]
    graph, _ = normalised(*more, outputs=["n", "e", "w"])
    found, first = internal_values(graph), graph.first_value[0]
    view, turned = graph.first_value[1], graph.first_value[3]
    assert found.values == {first + 1, first + 2, view, turned}
    assert found.read == {first + 1, view} and found.hidden == {first + 2, turned}
    assert not internal_values(graph, judged=True).values
