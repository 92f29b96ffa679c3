"""Every bound rule runs for every overload that PyTorch's own samples show it, forward and backward, without raising.

Where a rule raises, the bound is measured and the judgement reports a `Weakness`. No sample may lead to that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from judge.oracle.applied import applied, normal
from judge.oracle.bench import build
from mindgap.aten.functional import functionalize
from mindgap.graph import Graph, GraphError, materialise_all
from mindgap.graph.operators import UNCLASSIFIED, traits
from mindgap.judge.oracle import Oracle
from mindgap.judge.oracle.bounds import rules as module
from mindgap.judge.oracle.bounds.rules import Bound, Site
from mindgap.judge.oracle.evaluation.float64 import BoundCall, OracleMemoryError, bind_call, evaluate_with_reason
from mindgap.sources import CaptureFailure, capture_source
from mindgap_zoo.operator_samples.operators import names

#: Samples are spread over this many tests, so that each takes seconds.
PARTS = 12
#: Operators whose samples write to memory that no value shows.
NO_FUNCTIONAL_FORM = {"resize_", "resize_as_"}
#: Operators that run in their own dtypes only, and why that is right.
OWN_DTYPES = {
    "aten.nextafter.default": "the neighbour of a number depends on its format",
    "aten._scaled_mm.default": "takes float8 operands only",
    "aten._scaled_mm_v2.default": "takes float8 operands only",
}


def sample_graphs(name: str) -> list[Graph]:
    """The functional graphs of an operator's samples, forward and backward."""
    found: list[Graph] = []
    for backward in (False, True):
        items = capture_source(f"ops:{name}", backward=backward)
        found += [functionalize(graph).graph for _, graph in items if not isinstance(graph, CaptureFailure)]
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.nightly] if part else []) for part in range(PARTS)]
)
def test_no_rule_raises_and_float64_serves_and_every_operator_is_classified(part: int) -> None:
    bad: list[str] = []
    for name in names()[part::PARTS]:
        if name in NO_FUNCTIONAL_FORM:
            continue
        for graph in sample_graphs(name):
            bad += [f"{name}: {node.op} is in no family" for node in graph.nodes if traits(node.op) is UNCLASSIFIED]
            for one in Oracle(graph, materialise_all(graph)).weaknesses:
                raised = one.missing == "bound rule" and "raised" in one.reason
                if raised or (one.missing == "float64 reference" and one.op not in OWN_DTYPES):
                    bad.append(f"{name}: {one.op}: {one.missing}: {one.reason}")
    assert not bad


def test_what_has_no_functional_form_says_so() -> None:
    for name in NO_FUNCTIONAL_FORM:
        with pytest.raises(GraphError, match="no functional form"):
            sample_graphs(name)


@pytest.mark.parametrize("error", [AttributeError, TypeError, KeyError, ZeroDivisionError, RuntimeError])
def test_a_rule_that_raises_is_reported(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def broken(site: Site) -> list[Bound | None]:
        raise error("misspelt")

    monkeypatch.setitem(module._RULES, "tanh", broken)
    (found,) = applied("aten.tanh.default", normal(64)).oracle.weaknesses
    assert (found.node, found.op, found.missing) == (0, "aten.tanh.default", "bound rule")
    assert "broken raised" in found.reason and "misspelt" in found.reason


def test_an_operator_without_a_rule_is_reported_and_still_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(module._RULES, "tanh")
    one = applied("aten.tanh.default", normal(64))
    assert [(w.missing, w.reason) for w in one.oracle.weaknesses] == [("bound rule", "the operator has no bound rule")]
    (y,) = one.outputs
    assert y is not None and one.kinds() == [None] and one.kind(y * 1.5) == "discrepant"


INDEX = torch.tensor([0, 2, 0, 1])
MEASURED = {
    "aten.scatter_reduce.two": (normal(4), 0, INDEX, normal(4), "prod"),
    "aten.index_reduce.default": (normal(4, 3), 0, INDEX, normal(4, 3), "mean"),
    "aten.put.default": (normal(4), INDEX, normal(4), True),
    "aten.histc.default": (normal(64),),
    "aten.bincount.default": (INDEX, normal(4)),
    "aten.embedding_bag.default": (normal(8, 3), INDEX, torch.tensor([0, 2])),
    "aten.scatter.reduce": (normal(4), 0, INDEX, normal(4)),
    "aten.linalg_eigh.default": (torch.eye(3) + 1,),
}


@pytest.mark.parametrize("op", MEASURED)
def test_a_bound_that_is_measured_is_weak_evidence(op: str) -> None:
    named = {"reduce": "multiply"} if op == "aten.scatter.reduce" else {}
    (found,) = applied(op, *MEASURED[op], **named).oracle.weaknesses
    assert (found.node, found.op, found.missing) == (0, op, "bound rule")
    assert found.reason.startswith("no bound is derived for ")


@pytest.mark.parametrize("accumulate", [True, False])
def test_a_bound_that_is_derived_is_strong_evidence(accumulate: bool) -> None:
    index = applied("aten.index_put.default", normal(4), [INDEX], normal(4), accumulate)
    added = applied("aten.scatter_add.default", normal(4), 0, INDEX, normal(4))
    assert index.oracle.weaknesses == added.oracle.weaknesses == ()


def test_strong_evidence_has_no_weakness() -> None:
    assert applied("aten.tanh.default", normal(64)).oracle.weaknesses == ()


def test_an_operator_that_runs_in_its_own_dtype_only_is_reported() -> None:
    x = normal(16)
    (found,) = applied("aten.nextafter.default", x, x + 1).oracle.weaknesses
    assert found.missing == "float64 reference" and found.op == "aten.nextafter.default"


def tanh_call(function: Callable[[torch.Tensor], torch.Tensor]) -> BoundCall:
    """A call of tanh on float32, evaluated by this function."""
    graph = applied("aten.tanh.default", normal(8)).graph
    return replace(bind_call(graph, graph.nodes[0]), function=function)


def in_its_own_dtype(error: BaseException) -> Callable[[torch.Tensor], torch.Tensor]:
    """tanh that raises in float64."""

    def call(x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float64:
            raise error
        return torch.tanh(x)

    return call


def test_an_operator_that_refuses_float64_runs_in_its_own_dtype_with_the_reason() -> None:
    x = normal(8)
    refused = NotImplementedError("not implemented for 'Double'\nand more")
    (y,), reason = evaluate_with_reason(tanh_call(in_its_own_dtype(refused)), [x.double()], {})
    assert torch.equal(y, torch.tanh(x).double())
    assert reason == "NotImplementedError: not implemented for 'Double'"


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: tried 8 bytes")]
)
def test_lack_of_memory_is_not_taken_for_lack_of_a_float64_kernel(error: BaseException) -> None:
    with pytest.raises(OracleMemoryError, match="memory does not suffice"):
        evaluate_with_reason(tanh_call(in_its_own_dtype(error)), [normal(8).double()], {})


def test_lack_of_memory_in_a_rule_is_not_measured_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(site: Site) -> list[Bound | None]:
        raise OracleMemoryError("none left")

    monkeypatch.setitem(module._RULES, "tanh", starved)
    with pytest.raises(OracleMemoryError):
        applied("aten.tanh.default", normal(64))


def test_an_error_of_our_own_is_no_refusal() -> None:
    with pytest.raises(KeyError):
        evaluate_with_reason(tanh_call(in_its_own_dtype(KeyError("ours"))), [normal(8).double()], {})


def test_replays_of_another_shape_are_reported_and_no_failure() -> None:
    """Elements chosen by a mask that rounding decides: every replay chooses another number of them."""
    x = torch.linspace(0.5, 1.5, 4096).numpy()
    inverse = (1.0 / x.astype("float64") + 3e-8).astype("float32")
    calls = [
        ("m", "aten.mul.Tensor", "i0", "i1"), ("k", "aten.gt.Scalar", "m", 1.0),
        ("s", "aten.masked_select.default", "i0", "k"), ("e", "aten.exp.default", "s"),
    ]  # fmt: skip
    graph = build([x, inverse], calls, ["e"])
    oracle = Oracle(graph, [x, inverse])
    y = oracle.step.values[graph.outputs[0]].numpy()
    assert 0 < y.size < x.size
    (seen,) = oracle.examine([y])
    assert seen.kind == "calm" and seen.ill
    (found,) = oracle.weaknesses
    assert found.missing == "replay" and found.op == "aten.exp.default" and "shape" in found.reason


def test_gates_are_exact_to_a_rounding_of_one() -> None:
    """A state of 1e-7, as ONNX Runtime's LSTM gives for quiet sounds, is off by parts of 1e-7; 1e-5 is an error."""
    small = [torch.full((2, 4), 1e-7), torch.zeros(2, 4), torch.full((12, 4), 0.1), torch.full((12, 4), 0.1)]
    one = applied("aten.gru_cell.default", *small, torch.zeros(12), torch.zeros(12))
    (y,) = one.outputs
    assert y is not None and float(y.abs().max()) < 1e-6
    assert one.kind(y + 1e-7) is None and one.kind(y + 1e-5) == "discrepant"
