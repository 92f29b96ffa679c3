"""The time of each operator of a model by itself, and the totals of models that are slower or wrong."""

from __future__ import annotations

import weakref
from typing import Any

from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec, TensorStore
from mindgap.platforms.name import CPU_EAGER, parse
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap_studies.cli.study_speed import _totals
from mindgap_surveys.support.operator_times import operator_times, seconds_of
from mindgap_surveys.support.single_calls import calls, each_call

JIT = parse("cpu/jit")
SPEC = TensorSpec.contiguous("float32", (8, 8))
#: relu(relu(x) @ w): two calls of relu on unlike values and one product.
GRAPH = Graph(
    (Input(SPEC, Constant(0.5)), Input(SPEC, Constant(0.25), "parameter")),
    (
        Node("aten.relu.default", (Ref(0),), (), (SPEC,)),
        Node("aten.mm.default", (Ref(2), Ref(1)), (), (SPEC,)),
        Node("aten.relu.default", (Ref(3),), (), (SPEC,)),
    ),
    (4,),
)


def test_each_operator_is_timed_on_each_platform() -> None:
    with WorkerPool([CPU_EAGER, JIT]) as pool:
        found = operator_times(GRAPH, [CPU_EAGER, JIT], pool.run, repeat=3)
    assert {each.op: each.calls for each in found.operators} == {"aten.relu.default": 2, "aten.mm.default": 1}
    assert found.left_out == 0 and all(each.seconds[JIT] for each in found.operators)
    lost = found.operators[0].lost(JIT, CPU_EAGER)
    assert lost == found.operators[0].seconds[JIT] - found.operators[0].seconds[CPU_EAGER]  # type: ignore[operator]


def test_an_operator_that_does_not_run_alone_says_why_and_equal_calls_are_timed_once() -> None:
    asked: list[str] = []

    def execute(job: Job) -> Outcome:
        op = job.graph.nodes[0].op
        asked.append(op)
        if op == "aten.mm.default" and job.platform == JIT:
            return Outcome(job.platform, "", "unsupported", message="no\nkernel")
        return Outcome(job.platform, "", "ok", timings={"run": 9.0, "second_run": 2.0, "median_run": 1.5})

    found = {each.op: each for each in operator_times(GRAPH, [CPU_EAGER, JIT], execute).operators}
    assert asked.count("aten.relu.default") == 2, "its two calls have one form"
    assert found["aten.relu.default"].seconds == {CPU_EAGER: 3.0, JIT: 3.0}
    product = found["aten.mm.default"]
    assert product.seconds[JIT] is None and product.lost(JIT, CPU_EAGER) is None
    assert product.reasons == {JIT: "unsupported: no kernel"}
    assert seconds_of({"run": 9.0, "second_run": 2.0}) == 2.0 and seconds_of({}) == 0.0


def test_a_call_is_not_held_after_it_has_run() -> None:
    nodes = tuple(Node("aten.abs.default", (Ref(number),), (), (SPEC,)) for number in range(8))
    held: list[weakref.ref[Graph]] = []
    most: list[int] = []

    def take(_: int, call: Graph) -> None:
        held.append(weakref.ref(call))
        most.append(sum(each() is not None for each in held))

    each_call(Graph((GRAPH.inputs[0],), nodes, (8,)), take)
    assert len(held) == 8 and max(most) <= 2


def test_a_stored_weight_stays_a_parameter(tmp_path: Any) -> None:
    store = TensorStore(tmp_path)
    import numpy as np

    from mindgap.graph import Stored

    key = store.put(np.full((8, 8), 0.25, np.float32))
    stored = Graph((GRAPH.inputs[0], Input(SPEC, Stored(key), "parameter")), GRAPH.nodes, GRAPH.outputs)
    product = next(each for each in calls(stored, store) if each.nodes[0].op == "aten.mm.default")
    assert [each.role for each in product.inputs] == ["input", "parameter"]


def test_what_is_fast_and_wrong_is_counted() -> None:
    def row(slowdown: float | None, verdict: str = "rounding") -> dict[str, Any]:
        return {"platform": JIT, "slowdown": slowdown, "finding": verdict == "discrepant", "verdict": verdict}

    wrong, unjudged = "discrepant", "unjudged"
    (found,) = _totals([
        row(0.5), row(0.5, wrong), row(2.0), row(4.0, wrong), row(0.5, unjudged), row(None, unjudged)
    ])  # fmt: skip
    assert found == {
        "platform": JIT, "models": 5, "slower": 2, "slower_share": 0.4, "median_slowdown": 3.0, "fast_and_wrong": 1,
        "slow_and_wrong": 1, "not_judged": 1,
    }  # fmt: skip
    assert _totals([row(None)])[0]["slower_share"] is None
