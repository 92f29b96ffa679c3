"""Traces: the first value that differs, distances, rates, roles, fusions, and what looking inside does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindgap.cli.trace import json_text
from mindgap.graph import Graph, Input, MindgapError, Node, Normal, Ref, TensorSpec, TensorStore
from mindgap.judge.trace.data_flow import before_nodes, hidden_before
from mindgap.judge.trace.probing import ProbeLimits
from mindgap.judge.trace.value_trace import EPSILON, ValueTrace, trace_values, turning_points
from mindgap.platforms.protocol import Array
from mindgap.run.local import run_job
from mindgap.run.outcome import Job, Outcome
from mindgap.workflows.diff.tracing import trace_graph

X = TensorSpec.contiguous("float32", (4, 4))
EAGER = "cpu/eager@threads=1"


def node(op: str, *args: Any) -> Node:
    return Node(op, args, (), (X,))


def chain() -> Graph:
    """exp -> view -> neg -> mul by 1000 -> sign -> add."""
    nodes = (
        node("aten.exp.default", Ref(0)),
        node("aten.view.default", Ref(1), (4, 4)),
        node("aten.neg.default", Ref(2)),
        node("aten.mul.Tensor", Ref(3), 1000.0),
        node("aten.sign.default", Ref(4)),
        node("aten.add.Tensor", Ref(5), Ref(0)),
    )
    return Graph((Input(X, Normal(0)),), nodes, (6,))


def faulty(folder: Path, text: str) -> str:
    file = folder / "faults.toml"
    file.write_text(f"[[fault]]\n{text}")
    return f"faulty/eager@faults={file}"


def traced(graph: Graph, platform: str, folder: Path) -> ValueTrace:
    return trace_graph(graph, platform, reference=EAGER, tensors=TensorStore(folder))


@pytest.mark.nightly
def test_a_fault_is_the_first_difference_and_the_distance_follows_it(tmp_path: Path) -> None:
    platform = faulty(tmp_path, 'kind = "scaled"\nfactor = 1.5\nwhen = { op = "aten.neg*" }')
    found = traced(chain(), platform, tmp_path)
    assert found.diverged and found.first == 2 and found.culprit == (2,) and found.ops == ("aten.neg.default",)
    assert [v.state for v in found.values] == ["equal", "equal", "differs", "differs", "equal", "equal"]
    assert [v.role for v in found.values] == [None, None, "introduces", "propagates", "masks", None]
    negated, scaled = found.values[2], found.values[3]
    assert negated.mad and scaled.mad == pytest.approx(1000 * negated.mad, rel=1e-5)
    assert scaled.rate == pytest.approx((scaled.mad - negated.mad) / (negated.mad + EPSILON))
    assert found.values[4].rate == pytest.approx(-1, rel=1e-6) and negated.n_differing == 16
    assert [o.equal for o in found.outputs] == [True] and found.probes[0].effect == "no"
    assert [v.node for v in turning_points(found)] == [2, 4, 5]
    read = json.loads(json_text(found, diverged=found.diverged))
    assert read["diverged"] and read["values"][2]["role"] == "introduces" and read["version"] == 1


@pytest.mark.nightly
def test_equal_sides_have_nothing_that_differs(tmp_path: Path) -> None:
    found = traced(chain(), "cpu/eager@threads=1,onednn=off", tmp_path)
    assert not found.diverged and {v.state for v in found.values} == {"equal"} and found.culprit == ()
    assert found.values[1].view_of == 1 and all(v.mad == 0 for v in found.values)


@pytest.mark.nightly
def test_nan_in_place_of_a_number_is_counted_and_told(tmp_path: Path) -> None:
    platform = faulty(tmp_path, 'kind = "nan_to_zero"\nwhen = { op = "aten.log*" }')
    graph = Graph((Input(X, Normal(0)),), (node("aten.log.default", Ref(0)),), (1,))
    (value,) = traced(graph, platform, tmp_path).values
    assert value.state == "differs" and value.mad == 0 and value.note.startswith("NaN on one side in ")


@pytest.mark.nightly
def test_unequal_runs_of_one_platform_are_told(tmp_path: Path) -> None:
    platform = faulty(tmp_path, 'kind = "nondeterministic"\nwhen = { op = "aten.exp*" }')
    graph = Graph((Input(X, Normal(0)),), (node("aten.exp.default", Ref(0)),), (1,))
    found = traced(graph, platform, tmp_path)
    assert found.probes[0].effect == "unknown" and "--repeat" in found.probes[0].notes[0]


def test_a_refusal_compares_nothing(tmp_path: Path) -> None:
    platform = faulty(tmp_path, 'kind = "refusal"\nwhy = "no such kernel"\nwhen = { op = "aten.neg*" }')
    with pytest.raises(MindgapError, match=r"nothing was compared: .*unsupported: .*no such kernel"):
        traced(chain(), platform, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("platform", ["onnxruntime/cpu"])
def test_a_runtime_shows_values_as_outputs(platform: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    found = traced(chain(), platform, tmp_path)
    assert len(found.values) == 6 and all(v.digests[0] for v in found.values)
    assert found.probes[0].effect == "no" and found.probes[1].effect == "no"


# ---- a compiler in miniature: it fuses a multiplication with the addition that reads it, unless the product is shown


class Fusing:
    """Computes `mul` then `add` in float64 and rounds once, where only the sum is an output; else like the others."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Any:
        def call(given: Sequence[Array]) -> list[Array]:
            wide = self.exact and not {2, 3} & set(graph.outputs)
            values: list[Any] = list(given)
            for each in graph.nodes:
                operands = [values[a.index] for a in each.args if isinstance(a, Ref)]
                if wide and each.op != "aten.neg.default":
                    operands = [o.astype(np.float64) for o in operands]
                made = {"mul": np.multiply, "add": np.add, "neg": np.negative}[each.op.split(".")[1]](*operands)
                values.append(made)
            return [np.asarray(values[n], np.float32) for n in graph.outputs]

        return call

    def describe(self) -> dict[str, Any]:
        return {}


def fused() -> Graph:
    """x · y, then + x, twice; then neg."""
    nodes = (
        node("aten.mul.Tensor", Ref(0), Ref(1)),
        node("aten.add.Tensor", Ref(2), Ref(0)),
        node("aten.add.Tensor", Ref(3), Ref(1)),
        node("aten.neg.default", Ref(4)),
    )
    return Graph((Input(X, Normal(0)), Input(X, Normal(1))), nodes, (5,))


def execute(job: Job) -> Outcome:
    return run_job(Fusing(exact=job.platform == "fusing"), job)


def test_where_only_a_fusion_differs_the_culprit_is_its_operators() -> None:
    found = trace_values(fused(), "fusing", "plain", execute, ProbeLimits())
    ours, theirs = found.probes
    assert ours.effect == "yes" and ours.changed == (2, 3) and theirs.effect == "no"
    assert [v.state for v in found.values] == ["inside", "inside", "differs", "differs"]
    assert found.culprit == (0, 1, 2) and found.ops == ("aten.mul.Tensor", "aten.add.Tensor")
    assert found.values[0].mad is None and found.values[0].note == "looking at it changes the outputs"
    assert found.values[2].role == "introduces" and found.values[3].role == "propagates"


def test_values_that_were_not_looked_at_are_not_equal() -> None:
    found = trace_values(fused(), "fusing", "plain", execute, ProbeLimits(probes=1))
    assert [v.state for v in found.values] == ["inside"] * 3 + ["differs"]
    assert found.probes[0].changed == () and "3 values were not looked at" in found.probes[0].notes[0]


def test_hidden_values_are_followed_to_the_nearest_that_are_seen() -> None:
    assert hidden_before(fused(), 5, {5}) == {2, 3, 4}
    assert hidden_before(fused(), 5, {3, 5}) == {4}


def test_a_write_reaches_readers_of_the_memory_under_another_number() -> None:
    nodes = (
        node("aten.mul.Tensor", Ref(0), 2.0),
        node("aten.add_.Tensor", Ref(1), 1.0),
        node("aten.neg.default", Ref(1)),
    )
    graph = Graph((Input(X, Normal(0)),), nodes, (3,))
    assert before_nodes(graph, {1: 0.0, 2: 5.0, 3: 5.0}) == [0.0, 0.0, 5.0]
