"""The verdict, the culprit and the blame, for faults that are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

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
    wrong_at,
)
from mindgap.graph import DType, Graph
from mindgap.judge.trace.judge import Judge
from mindgap.run.outcome import Job, Outcome


@pytest.mark.parametrize(("op", "node"), [("linear", 0), ("gelu", 1), ("layer_norm", 2), ("softmax", 4)])
@pytest.mark.parametrize("position", [0, 77])
def test_the_culprit_of_a_chain(op: str, node: int, position: int) -> None:
    graph, arrays = chain()
    found = Bench({PLATFORM: wrong_at(op, one_element(position, 0.05))}).judge(graph, arrays)
    assert (found.verdict, found.blame) == ("discrepant", "platform")
    assert found.culprit is not None and found.culprit.node == node


def test_equal_platforms_are_calm() -> None:
    graph, arrays = chain()
    found = Bench().judge(graph, arrays)
    assert found.verdict == "rounding" and found.culprit is None and found.blame is None


def test_rounding_alone_is_no_finding() -> None:
    graph, arrays = chain()
    ulps = wrong_at("linear", lambda y: y * (1 + 2**-23))
    assert Bench({PLATFORM: ulps}).judge(graph, arrays).verdict == "rounding"


def test_a_wrong_reference_is_blamed() -> None:
    graph, arrays = chain()
    found = Bench({REFERENCE: wrong_at("gelu", bent(0.1))}).judge(graph, arrays)
    assert (found.verdict, found.blame) == ("discrepant", "reference")
    assert found.culprit is not None and found.culprit.op == "aten.gelu.default"


def test_a_spoiled_input_that_is_an_output_is_judged() -> None:
    """It comes from no node: the search has nowhere to begin, and any operator may have written there."""
    x = normal(4, 16)
    graph = build([x], [("a", "aten.gelu.default", "i0"), ("b", "aten.tanh.default", "a")], ["i0", "b"])

    def fault(g: Graph, index: int, result: Any, args: Any) -> Any:
        if g.nodes[index].op == "aten.gelu.default":
            args[0].mul_(1.1)
        return result

    class Apart(Bench):
        """Every job gets its own copies."""

        def execute(self, job: Job) -> Outcome:
            return super().execute(replace(job, inputs={slot: array.copy() for slot, array in job.inputs.items()}))

    def shows_little(g: Graph) -> None:
        if len(g.outputs) > 2:
            raise MemoryError

    found = Apart({PLATFORM: fault}, {PLATFORM: shows_little}).judge(graph, [x])
    assert (found.verdict, found.blame) == ("discrepant", "platform")


def test_what_is_wrong_only_beside_others_is_no_culprit() -> None:
    """A runtime may spoil one result of a graph of many outputs: of the operators that are judged side by side."""
    graph, arrays = chain()
    beside, own = wrong_at("gelu", bent(0.1)), wrong_at("softmax", one_element(3, 0.1))

    def fault(g: Graph, index: int, result: Any, args: Any) -> Any:
        return own(g, index, beside(g, index, result, args) if len(g.outputs) > 2 else result, args)

    found = Bench({PLATFORM: fault}).judge(graph, arrays)
    assert found.culprit is not None and found.culprit.op == "aten.softmax.int"
    # The same of all operators: then none of them is named.
    spoiled = Bench({PLATFORM: lambda g, i, r, a: beside(g, i, r, a) if len(g.outputs) > 2 else r})
    assert spoiled.judge(graph, arrays).culprit is None


def test_both_wrong_alike_is_no_difference() -> None:
    graph, arrays = chain()
    fault = wrong_at("gelu", bent(0.1))
    found = Bench({PLATFORM: fault, REFERENCE: fault}).judge(graph, arrays)
    assert found.culprit is None and found.verdict in ("rounding", "ill_conditioned")


def test_both_wrong_and_one_of_them_elsewhere_too() -> None:
    graph, arrays = chain()
    shared, own = wrong_at("gelu", bent(0.1)), wrong_at("softmax", one_element(3, 0.1))

    def both(g: Graph, index: int, result: Any, args: Any) -> Any:
        return own(g, index, shared(g, index, result, args), args)

    found = Bench({PLATFORM: both, REFERENCE: shared}).judge(graph, arrays)
    assert found.culprit is not None and found.culprit.op == "aten.softmax.int"


def test_both_wrong_at_one_operator_in_different_ways_is_undecided() -> None:
    graph, arrays = chain()
    faults = {PLATFORM: wrong_at("gelu", bent(0.1)), REFERENCE: wrong_at("gelu", bent(-0.2))}
    found = Bench(faults).judge(graph, arrays)
    assert found.blame == "undecided" and found.culprit is not None and found.culprit.node == 1


def test_a_branch_is_told_from_the_other() -> None:
    arrays = [normal(8, 8)]
    calls = [("a", "aten.exp.default", "i0"), ("b", "aten.sin.default", "i0"), ("c", "aten.cos.default", "i0"),
             ("d", "aten.add.Tensor", "a", "b"), ("e", "aten.add.Tensor", "d", "c")]  # fmt: skip
    graph = build(arrays, calls, ["e"])
    found = Bench({PLATFORM: wrong_at("sin", one_element(5, 0.3))}).judge(graph, arrays)
    assert found.culprit is not None and found.culprit.op == "aten.sin.default" and found.culprit.node == 1


def test_in_place_operators_are_named_as_they_ran() -> None:
    arrays = [normal(8, 8)]
    calls = [("a", "aten.mul.Tensor", "i0", 2.0), ("b", "aten.sin_.default", "a"), ("c", "aten.add_.Tensor", "b", 1.0),
             ("d", "aten.exp.default", "a")]  # fmt: skip
    graph = build(arrays, calls, ["d"])
    found = Bench({PLATFORM: wrong_at("sin", one_element(5, 0.3))}).judge(graph, arrays)
    assert found.culprit is not None and (found.culprit.node, found.culprit.op) == (1, "aten.sin_.default")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_one_wrong_element_inside_a_narrow_graph_is_seen(dtype: str) -> None:
    """A tenth at one of 384 hidden elements: the outputs of 16-bit graphs do not show it, singles does."""
    graph, arrays = chain(dtype)
    found = Bench({PLATFORM: wrong_at("layer_norm", one_element(50, 0.25))}).judge(graph, arrays)
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.node == 2


def test_narrow_graphs_without_a_fault_are_calm() -> None:
    for dtype in ("bfloat16", "float16"):
        graph, arrays = chain(dtype)
        assert Bench().judge(graph, arrays).verdict == "rounding"


def test_reduced_precision() -> None:
    graph, arrays = chain()
    found = Bench({PLATFORM: wrong_at("linear", lambda y: y.bfloat16().float())}).judge(graph, arrays)
    assert found.verdict == "reduced_precision" and found.culprit is not None
    assert found.culprit.op == "aten.linear.default" and found.blame == "platform"


def test_nan_where_no_rounding_leads() -> None:
    graph, arrays = chain()
    found = Bench({PLATFORM: wrong_at("gelu", one_element(3, float("nan")))}).judge(graph, arrays)
    assert found.verdict == "exceptional" and found.culprit is not None and found.culprit.node == 1


@pytest.mark.parametrize("damage", [lambda y: y.double(), lambda y: y[:, :-1].contiguous()])
def test_another_dtype_or_shape(damage: Any) -> None:
    arrays = [normal(8, 8)]
    graph = build(arrays, [("a", "aten.sin.default", "i0"), ("b", "aten.exp.default", "a")], ["b"])
    found = Bench({PLATFORM: wrong_at("exp", damage)}).judge(graph, arrays)
    assert found.verdict == "structural" and found.culprit is not None and found.culprit.node == 1


def near_ties(op: str) -> tuple[Graph, list[Any]]:
    """Expert routing: the best two of scores that are equal up to rounding, and a gather by them."""
    x = normal(64, 16)
    arrays = [x, normal(8, 16, seed=1), normal(8, 32, seed=2)]
    arrays[1][1::2] = arrays[1][::2] * (1 + 2**-22)
    calls = [("s", "aten.linear.default", "i0", "i1"), ("p", "aten.softmax.int", "s", -1)]
    if op == "topk":
        calls += [("k", "aten.topk.default", "p", 2), ("f", "aten.flatten.using_ints", "k.1"),
                  ("g", "aten.index_select.default", "i2", 0, "f")]  # fmt: skip
        return build(arrays, calls, ["g", "k.1"]), arrays
    calls += [("k", "aten.argmax.default", "p", -1), ("g", "aten.index_select.default", "i2", 0, "k")]
    return build(arrays, calls, ["g", "k"]), arrays


@pytest.mark.parametrize("op", ["topk", "argmax"])
def test_decisions_near_ties_stay_calm(op: str) -> None:
    graph, arrays = near_ties(op)

    def rounds(y: torch.Tensor) -> torch.Tensor:
        noise = torch.empty(y.shape).bernoulli_(0.5, generator=torch.Generator().manual_seed(1)) * 2 - 1
        return y * (1 + noise * 2**-22)

    bench = Bench({PLATFORM: wrong_at("linear", rounds)})
    given = dict(enumerate(arrays))
    ours, theirs = (bench.execute(Job(name, graph, inputs=given)) for name in (PLATFORM, REFERENCE))
    assert ours.arrays is not None and theirs.arrays is not None
    assert (ours.arrays[1] != theirs.arrays[1]).any(), "the platforms decide alike: nothing is tested"
    assert bench.judge(graph, arrays).verdict in ("rounding", "ill_conditioned")


@pytest.mark.parametrize("op", ["topk", "argmax"])
def test_a_wrong_decision_is_a_finding(op: str) -> None:
    graph, arrays = near_ties(op)
    slot = 1 if op == "topk" else 0
    found = Bench({PLATFORM: wrong_at(op, lambda y: (y + 3) % 8, slot)}).judge(graph, arrays)
    assert found.verdict == "discrepant" and found.culprit is not None
    assert found.culprit.op == f"aten.{op}.default"


def test_a_topk_that_names_one_expert_twice() -> None:
    arrays = [normal(16, 8)]
    graph = build(arrays, [("k", "aten.topk.default", "i0", 2)], ["k.0", "k.1"])
    found = Bench({PLATFORM: wrong_at("topk", lambda y: y[:, :1].expand(-1, 2).contiguous(), 1)}).judge(graph, arrays)
    assert found.verdict == "discrepant"


def test_a_fault_of_two_operators_together() -> None:
    arrays = [normal(8, 8)]
    calls = [("a", "aten.sin.default", "i0"), ("b", "aten.relu.default", "a"), ("c", "aten.sigmoid.default", "b"),
             ("d", "aten.mul.Tensor", "c", 2.0)]  # fmt: skip
    graph = build(arrays, calls, ["d"])
    found = Bench({PLATFORM: fused_fault}).judge(graph, arrays)
    assert found.verdict == "discrepant" and found.culprit is not None
    assert found.culprit.op == "aten.relu.default+aten.sigmoid.default" and found.culprit.node == 2


def test_a_failure_is_traced_to_its_operator() -> None:
    graph, arrays = chain()

    def refuse(g: Graph) -> None:
        if any(n.op == "aten.layer_norm.default" for n in g.nodes):
            raise RuntimeError("kernel panic")

    found = Bench(refuse={PLATFORM: refuse}).judge(graph, arrays)
    assert found.verdict == "failed" and found.culprit is not None and found.culprit.node == 2
    assert [each.fault.nodes for each in found.faults] == [(2,)]
    assert "fails by itself" in found.detail and "kernel panic" in found.detail


def test_a_failure_of_two_operators_together() -> None:
    graph, arrays = chain()

    def refuse(g: Graph) -> None:
        if {"aten.gelu.default", "aten.softmax.int"} <= {n.op for n in g.nodes}:
            raise RuntimeError("cannot fuse")

    found = Bench(refuse={PLATFORM: refuse}).judge(graph, arrays)
    assert found.verdict == "failed" and found.culprit is not None and found.culprit.node == 4
    assert "only together: nodes 1, 4" in found.detail
    assert [each.fault.nodes for each in found.faults] == [(1, 4)]


def test_undefined_elements_are_told_as_such() -> None:
    arrays = [normal(32, scale=1e12)]
    graph = build(arrays, [("a", "aten._to_copy.default", "i0")], ["a"])
    node = replace(graph.nodes[0], kwargs=(("dtype", DType("int32")),),
                   outputs=(replace(graph.nodes[0].outputs[0], dtype="int32"),))  # fmt: skip
    graph = replace(graph, nodes=(node,))
    saturates = wrong_at("_to_copy", lambda y: torch.full_like(y, 2**31 - 1))
    assert Bench({PLATFORM: saturates}).judge(graph, arrays).verdict == "undefined"


def test_a_repetition_that_differs_is_judged() -> None:
    graph, arrays = chain()
    bench = Bench()
    given = dict(enumerate(arrays))
    good = bench.execute(Job(REFERENCE, graph, inputs=given))
    assert good.arrays is not None
    off = tuple(a + 0.5 for a in good.arrays)
    outcome = Outcome(PLATFORM, "", "nondeterministic", arrays=good.arrays, repeats=(good.arrays, off))
    bench.faults[PLATFORM] = wrong_at("softmax", lambda y: y + 0.5)
    found = Judge(graph, arrays, bench.execute, REFERENCE).judge(outcome, good)
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.node == 4


def test_roles_follow_the_difference() -> None:
    arrays = [normal(8, 8)]
    calls = [("a", "aten.sin.default", "i0"), ("b", "aten.mul.Tensor", "a", 3.0), ("z", "aten.sign.default", "b"),
             ("y", "aten.cos.default", "i0")]  # fmt: skip
    graph = build(arrays, calls, ["b", "z", "y"])
    found = Bench({PLATFORM: wrong_at("sin", scaled(1.01))}).judge(graph, arrays)
    roles = {node: role for node, _, role in found.nodes}
    assert roles[0] == "introduces" and roles[1] == "propagates" and roles[2] == "masks" and 3 not in roles


def test_no_roles_without_tracing() -> None:
    graph, arrays = chain()
    found = Bench({PLATFORM: wrong_at("gelu", bent(0.1))}).judge(graph, arrays, trace=False)
    assert found.nodes == () and found.culprit is not None


def stale_slices() -> Any:
    """A slice gets the result of the slice before it in the same run, where the two have one shape."""
    earlier: dict[str, Any] = {"index": -1, "result": None}

    def fault(graph: Graph, index: int, result: Any, args: Any) -> Any:
        if index <= earlier["index"]:
            earlier["result"] = None
        earlier["index"] = index
        if graph.nodes[index].op != "aten.slice.Tensor":
            return result
        before, earlier["result"] = earlier["result"], result.clone()
        return before if before is not None and before.shape == result.shape else result

    return fault


def test_memory_that_is_handed_out_twice_is_blamed_on_the_operator_that_got_it() -> None:
    """Each slice is right in a job of its own, and the product of the two only reads what is wrong."""
    arrays = [normal(6, 8), normal(6, 8, seed=1)]
    calls = [("a", "aten.slice.Tensor", "i0", 1, 1, 3), ("b", "aten.slice.Tensor", "i1", 1, 0, 2),
             ("c", "aten.mul.Tensor", "a", "b"), ("d", "aten.tanh.default", "c")]  # fmt: skip
    graph = build(arrays, calls, ["d"])
    found = Bench({PLATFORM: stale_slices()}).judge(graph, arrays)
    assert (found.verdict, found.blame) == ("discrepant", "platform") and found.culprit is not None
    assert (found.culprit.node, found.culprit.op) == (1, "aten.slice.Tensor")


def test_a_reference_that_errs_on_an_expanded_operand_is_blamed() -> None:
    """`median` of an expanded tensor is wrong in eager, as long as this PyTorch has that defect."""
    arrays = [normal(1, 5)]
    calls = [("e", "aten.expand.default", "i0", (3, 5)), ("m", "aten.median.dim", "e", 0)]
    graph = build(arrays, calls, ["m.0"])

    def on_a_copy(g: Graph, index: int, result: Any, args: Any) -> Any:
        return torch.median(args[0].contiguous(), *args[1:]) if g.nodes[index].op == "aten.median.dim" else result

    errs = not torch.equal(torch.from_numpy(arrays[0]).expand(3, 5).median(0).values, torch.from_numpy(arrays[0][0]))
    found = Bench({PLATFORM: on_a_copy}).judge(graph, arrays)
    assert (found.verdict, found.blame) == (("discrepant", "reference") if errs else ("identical", None)), found.detail
