"""A platform that computes one dtype in another has one culprit for it, and what goes beyond keeps its own."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.bench import PLATFORM, REFERENCE, Bench, Fault, build, fused_fault, normal
from mindgap.aten.tensors import TORCH_DTYPES, to_torch
from mindgap.graph import DType, Graph
from mindgap.judge.oracle import Oracle, OracleMemoryError
from mindgap.judge.trace import dtype_policy
from mindgap.judge.trace.judge import Judge
from mindgap.judge.trace.judgement import Judgement
from mindgap.run.outcome import Job

NARROW = {"float64": {"computes_in": "float32", "returns": "float64"}}
ONE_CAUSE = "dtype policy: float64 computed in float32"


def computed_in(declared: torch.dtype, computed: torch.dtype, more: Fault | None = None) -> Fault:
    """Every operator rounds its operands and its results of one dtype to another."""

    def narrow(x: Any) -> Any:
        return x.to(computed).to(declared) if isinstance(x, torch.Tensor) and x.dtype == declared else x

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        from mindgap.aten.operators import overload

        node = graph.nodes[index]
        kwargs = {k: TORCH_DTYPES[v.name] if isinstance(v, DType) else v for k, v in node.kwargs}
        again = narrow(overload(node.op)(*[narrow(a) for a in args], **kwargs))
        return again if more is None else more(graph, index, again, args)

    return fault


def products_in(computed: torch.dtype) -> Fault:
    """Matrix products round their float32 operands to another dtype."""
    whole = computed_in(torch.float32, computed)

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return whole(graph, index, result, args) if ".mm." in graph.nodes[index].op else result

    return fault


def judged(
    graph: Graph, arrays: Sequence[Any], fault: Fault, dtypes: Mapping[str, Mapping[str, str]] = NARROW
) -> Judgement:
    bench = Bench({PLATFORM: fault})
    judge = Judge(graph, arrays, bench.execute, REFERENCE, dtypes=lambda name: dtypes if name == PLATFORM else {})
    given = dict(enumerate(arrays))
    return judge.judge(*(bench.execute(Job(name, graph, inputs=given)) for name in (PLATFORM, REFERENCE)))


def chain_of_doubles() -> tuple[Graph, list[Any]]:
    arrays = [normal(6, 24, dtype="float64"), normal(24, 24, seed=1, dtype="float64")]
    calls = [
        ("s", "aten.slice.Tensor", "i0", 0, 1, 5), ("m", "aten.mm.default", "s", "i1"),
        ("t", "aten.tanh.default", "m"), ("a", "aten.sum.dim_IntList", "t", [1]),
    ]  # fmt: skip
    return build(arrays, calls, ["s", "t", "a"]), arrays


def test_doubles_computed_in_single_are_one_cause() -> None:
    graph, arrays = chain_of_doubles()
    narrow = computed_in(torch.float64, torch.float32)
    found = judged(graph, arrays, narrow)
    assert (found.verdict, found.blame) == ("reduced_precision", "platform")
    assert found.culprit is not None and (found.culprit.node, found.culprit.op) == (-1, ONE_CAUSE)
    assert "computes float64 in float32" in found.detail
    (fault,) = (each.fault for each in found.faults)
    assert fault.culprit == found.culprit and fault.nodes == (0, 1, 2, 3)
    # Nobody has said that the platform does so: then it is an operator's doing.
    unknown = judged(graph, arrays, narrow, {})
    assert unknown.culprit is not None and unknown.culprit.op == "aten.slice.Tensor"


def test_an_operand_that_is_not_rounded_is_the_same_cause() -> None:
    """The first operator reads its operand in float32, and rounds its result: more exact than float16 throughout."""
    arrays = [normal(6, 24), normal(24, 24, seed=1)]
    graph = build(arrays, [("m", "aten.mm.default", "i0", "i1"), ("t", "aten.tanh.default", "m")], ["m", "t"])

    def narrow(x: torch.Tensor) -> torch.Tensor:
        return x.half().float()

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        product = ".mm." in graph.nodes[index].op
        return narrow(args[0] @ narrow(args[1])) if product else narrow(torch.tanh(narrow(args[0])))

    def wrong(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return fault(graph, index, result, args) * (1.01 if ".mm." in graph.nodes[index].op else 1)

    dtypes = {"float32": {"computes_in": "float16", "returns": "float32"}}
    found = judged(graph, arrays, fault, dtypes)
    assert found.culprit is not None and found.culprit.op == "dtype policy: float32 computed in float16"
    assert [each.fault.culprit for each in found.faults] == [found.culprit]
    beyond = judged(graph, arrays, wrong, dtypes)
    assert beyond.culprit is not None and beyond.culprit.op == "aten.mm.default"


def test_a_wrong_sign_is_not_explained_where_rounding_moves_the_operands_further() -> None:
    """In bfloat16 the operands are 64 apart, in float32 0.1: an operand read as it is explains no wrong sign."""
    arrays = [np.full(8, 8352.05, np.float32), np.full(8, 8351.95, np.float32)]
    graph = build(arrays, [("d", "aten.sub.Tensor", "i0", "i1"), ("r", "aten.mul.Tensor", "d", 3.1)], ["d", "r", "r"])
    dtypes = {"float32": {"computes_in": "bfloat16", "returns": "float32"}}

    def rounded(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return result.bfloat16().float()

    def negated(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return -result if index == 0 else result

    found, wrong = judged(graph, arrays, rounded, dtypes), judged(graph, arrays, negated, dtypes)
    assert found.culprit is not None and found.culprit.op == "dtype policy: float32 computed in bfloat16"
    assert wrong.culprit is not None and wrong.culprit.op == "aten.sub.Tensor" and wrong.verdict == "discrepant"


def test_an_operand_that_would_be_zero_in_the_narrower_dtype_may_be_read_as_it_is() -> None:
    arrays = [np.float32([1e-8, 2e-8, 0.5, 3.0])]
    graph = build(arrays, [("y", "aten.log.default", "i0")], ["y"])
    dtypes = {"float32": {"computes_in": "float16", "returns": "float32"}}
    found = judged(graph, arrays, lambda graph, index, result, args: result.half().float(), dtypes)
    assert found.culprit is not None and found.culprit.op == "dtype policy: float32 computed in float16"


def test_a_policy_that_memory_does_not_suffice_for_is_weaker_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator is named, and it is said that the policy may explain the differences."""

    def short_of_memory(graph: Graph, inputs: Sequence[Any], **options: Any) -> Oracle:
        if len(graph.nodes) > 1:
            raise OracleMemoryError("judging it takes about 90.0 GiB")
        return Oracle(graph, inputs, **options)

    graph, arrays = chain_of_doubles()
    narrow = computed_in(torch.float64, torch.float32)
    assert not judged(graph, arrays, narrow).weaknesses
    monkeypatch.setattr("mindgap.judge.trace.dtype_policy.Oracle", short_of_memory)
    found = judged(graph, arrays, narrow)
    assert found.culprit is not None and found.culprit.op == "aten.slice.Tensor"
    (weak,) = found.weaknesses
    assert weak.missing == "dtype policy" and ONE_CAUSE in weak.reason and "90.0 GiB" in weak.reason


def is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_large_weights_in_another_dtype_lie_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are mapped, need no memory of their own, and change no verdict; a full disk is said."""
    graph, arrays = chain_of_doubles()
    monkeypatch.setattr(dtype_policy, "_PIECE", 100)
    weight = dtype_policy.converted(arrays[1], "float32")
    assert is_mapped(weight) and not is_mapped(arrays[1]) and np.array_equal(weight, arrays[1].astype(np.float32))
    half = dtype_policy.converted(arrays[1], "bfloat16")
    assert torch.equal(to_torch(half), torch.tensor(arrays[1]).bfloat16()) and half.flags.writeable
    narrow = computed_in(torch.float64, torch.float32)
    found = judged(graph, arrays, narrow)
    assert found.culprit is not None and found.culprit.op == ONE_CAUSE and not found.weaknesses

    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dtype_policy.tempfile, "TemporaryFile", full)
    (weak,) = judged(graph, arrays, narrow).weaknesses
    assert weak.missing == "dtype policy" and "no room for a weight in float32" in weak.reason


def test_another_dtype_than_the_one_measured_to_come_back_is_no_policy() -> None:
    """OpenVINO gives int32 for a product of int32, where PyTorch has int64; the policy says that int64 comes back."""
    arrays = [np.array([[3, 5], [7, 11]], np.int32)]
    graph = build(arrays, [("p", "aten.prod.dim_int", "i0", 1)], ["p"])
    narrow = {"int64": {"computes_in": "int32", "returns": "int64", "overflow": "wraps"}}
    found = judged(graph, arrays, lambda graph, index, result, args: result.to(torch.int32), narrow)
    assert (found.verdict, found.blame) == ("structural", "platform")
    assert found.culprit is not None and found.culprit.op == "aten.prod.dim_int"


def test_a_range_that_the_narrower_dtype_lacks_is_the_same_cause() -> None:
    x = np.array([1e300, 1e-300, 3.0, -2e200], np.float64)
    graph = build([x], [("m", "aten.mul.Scalar", "i0", 2.0)], ["m"])
    found = judged(graph, [x], computed_in(torch.float64, torch.float32))
    assert found.culprit is not None and found.culprit.op == ONE_CAUSE
    assert found.verdict == "reduced_precision"


def test_a_range_that_ends_at_the_largest_number_is_the_same_cause() -> None:
    """OpenVINO gives the largest float32 where the result is out of its range."""
    x = np.array([1e300, 1e-300, 3.3, -2e200], np.float64)
    graph = build([x], [("m", "aten.mul.Scalar", "i0", 2.0)], ["m"])
    largest = torch.finfo(torch.float32).max

    def ends(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return (args[0].clamp(-largest, largest).float() * 2.0).clamp(-largest, largest).double()

    found = judged(graph, [x], ends)
    assert found.culprit is not None and found.culprit.op == ONE_CAUSE

    def ends_early(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return result.clamp(-1e30, 1e30).float().double()

    other = judged(graph, [x], ends_early)
    assert other.culprit is not None and other.culprit.op == "aten.mul.Scalar"


def ties_away(x: torch.Tensor) -> torch.Tensor:
    """Whole numbers up to 4,096 in float16, whose numbers are even there, rounded away from zero."""
    assert bool((x.abs() <= 4096).all()) and bool((x == x.round()).all())
    return torch.where(x.abs() <= 2048, x, x.sign() * 2 * ((x.abs() + 1) / 2).floor())


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize(("rounded", "explained"), [(ties_away, True), (lambda x: (x / 8).floor() * 8, False)])
def test_places_of_numbers_that_fall_together_are_explained_by_either_rounding_of_ties(
    rounded: Callable[[torch.Tensor], torch.Tensor], explained: bool, followed: bool
) -> None:
    """3,001 is halfway in float16: with 3,000 to even, with 3,002 away from zero. `followed`: by an operator that gets
    the places."""
    x = np.random.default_rng(0).permutation(np.arange(-4096, 4096)).astype(np.float32)
    calls = [("a", "aten.argsort.default", "i0"), ("b", "aten.positive.default", "a")]
    graph = build([x], calls if followed else calls[:1], ["b" if followed else "a"])

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return result if index else rounded(args[0]).argsort()

    found = judged(graph, [x], fault, {"float32": {"computes_in": "float16", "returns": "float32"}})
    assert found.culprit is not None
    assert found.verdict == ("reduced_precision" if explained else "discrepant")
    assert (found.culprit.op == "dtype policy: float32 computed in float16") == explained


def test_an_error_beyond_the_policy_has_its_own_culprit() -> None:
    graph, arrays = chain_of_doubles()

    def bends(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return result * 1.001 if graph.nodes[index].op == "aten.tanh.default" else result

    found = judged(graph, arrays, computed_in(torch.float64, torch.float32, bends))
    assert found.verdict in ("discrepant", "reduced_precision")
    assert found.culprit is not None and found.culprit.op == "aten.tanh.default"
    # What the policy explains is a fault of its own.
    own, policy = (each.fault for each in found.faults)
    assert own.culprit == found.culprit and own.nodes == (2,)
    assert policy.culprit is not None and policy.culprit.op == ONE_CAUSE and policy.nodes == (0, 1, 3)
    assert policy.verdict == "reduced_precision" and "explains differences here" in policy.detail


def test_floats_that_are_not_narrowed_are_judged_as_usual() -> None:
    arrays = [normal(6, 24)]
    graph = build(arrays, [("t", "aten.tanh.default", "i0")], ["t"])
    fault = computed_in(torch.float32, torch.bfloat16)
    found = judged(graph, arrays, fault)
    assert found.culprit is not None and found.culprit.op == "aten.tanh.default"
    decided = judged(graph, arrays, fault, {"float32": {"computes_in": "bfloat16", "returns": "float32"}})
    assert decided.culprit is not None and decided.culprit.op == "dtype policy: float32 computed in bfloat16"


def test_integers_computed_in_fewer_bits() -> None:
    x = np.array([2**40, 5, -(2**33) + 7], np.int64)
    graph = build([x], [("m", "aten.add.Tensor", "i0", "i0")], ["m"])
    fault = computed_in(torch.int64, torch.int32)
    found = judged(graph, [x], fault, {"int64": {"computes_in": "int32", "overflow": "wraps"}})
    assert found.culprit is not None and found.culprit.op == "dtype policy: int64 computed in int32"
    plain = judged(graph, [x], fault, {"int64": {"computes_in": "int64", "overflow": "wraps"}})
    assert plain.culprit is not None and plain.culprit.op == "aten.add.Tensor"


def test_integers_that_saturate() -> None:
    x, y = np.array([127, 1, -128, 100], np.int8), np.array([1, 1, -1, 100], np.int8)
    graph = build([x, y], [("a", "aten.add.Tensor", "i0", "i1")], ["a"])

    def saturates(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return (args[0].int() + args[1].int()).clamp(-128, 127).to(torch.int8)

    found = judged(graph, [x, y], saturates, {"int8": {"computes_in": "int8", "overflow": "saturates"}})
    assert found.verdict == "discrepant"
    assert found.culprit is not None and found.culprit.op == "dtype policy: int8 saturates"
    assert "127 + 1 gave 127; int8 wraps to -128" in found.detail
    unknown = judged(graph, [x, y], saturates, {"int8": {"computes_in": "unknown", "overflow": "saturates"}})
    assert unknown.culprit == found.culprit

    def off_by_one(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return result + 1

    other = judged(graph, [x, y], off_by_one, {"int8": {"computes_in": "int8", "overflow": "saturates"}})
    assert other.culprit is not None and other.culprit.op == "aten.add.Tensor"


PRODUCTS = {"float32": {"computes_in": "float32", "returns": "float32", "matmul_in": "bfloat16"}}


def two_products() -> tuple[Graph, list[Any]]:
    arrays = [normal(16, 64), normal(64, 64, seed=1), normal(64, 8, seed=2)]
    calls = [
        ("m", "aten.mm.default", "i0", "i1"), ("g", "aten.gelu.default", "m"), ("p", "aten.mm.default", "g", "i2"),
        ("e", "aten.exp.default", "p"),
    ]  # fmt: skip
    return build(arrays, calls, ["m", "p", "e"]), arrays


def test_products_computed_in_fewer_bits_are_one_cause() -> None:
    graph, arrays = two_products()
    found = judged(graph, arrays, products_in(torch.bfloat16), PRODUCTS)
    assert found.verdict == "reduced_precision" and found.blame == "platform"
    assert [each.fault.culprit.op for each in found.faults if each.fault.culprit] == [
        "dtype policy: float32 products computed in bfloat16"
    ]
    assert found.faults[0].fault.nodes == (0, 2)
    assert "computes sums of products of float32 in bfloat16" in found.detail


def test_a_bias_may_keep_its_bits() -> None:
    arrays = [normal(16, 64), normal(64, 64, seed=1), normal(64, seed=2) * 100]
    graph = build(arrays, [("l", "aten.linear.default", "i0", "i1", "i2")], ["l"])

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        factors = [a.to(torch.bfloat16).double() for a in args[:2]]
        return (factors[0] @ factors[1].T + args[2]).float()

    found = judged(graph, arrays, fault, PRODUCTS)
    assert found.culprit is not None and found.culprit.op == "dtype policy: float32 products computed in bfloat16"


def test_an_operator_that_sums_no_products_keeps_its_own_cause() -> None:
    graph, arrays = two_products()

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        found = products_in(torch.bfloat16)(graph, index, result, args)
        return found.to(torch.bfloat16).to(torch.float32) if "exp" in graph.nodes[index].op else found

    found = judged(graph, arrays, fault, PRODUCTS)
    named = {each.fault.culprit.op for each in found.faults if each.fault.culprit}
    assert named == {"dtype policy: float32 products computed in bfloat16", "aten.exp.default"}


def test_a_wrong_product_is_not_explained_by_fewer_bits() -> None:
    graph, arrays = two_products()

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        found = products_in(torch.bfloat16)(graph, index, result, args)
        return found * 1.5 if index == 2 else found

    found = judged(graph, arrays, fault, PRODUCTS)
    assert found.culprit is not None and found.culprit.op == "aten.mm.default" and found.culprit.node == 2


def many_products() -> tuple[Graph, list[Any]]:
    """Six products with one call, each followed by the same operator."""
    arrays = [normal(16, 64), *(normal(64, 64, seed=seed) / 4 for seed in range(1, 7))]
    calls: list[tuple[Any, ...]] = []
    for number in range(1, 7):
        calls.append((f"m{number}", "aten.mm.default", f"t{number - 1}" if number > 1 else "i0", f"i{number}"))
        calls.append((f"t{number}", "aten.tanh.default", f"m{number}"))
    return build(arrays, calls, ["t6"]), arrays


def test_a_policy_of_a_large_graph_is_concluded_from_two_nodes_of_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, arrays = many_products()
    every = judged(graph, arrays, products_in(torch.bfloat16), PRODUCTS)
    assert every.faults[0].fault.nodes == (0, 2, 4, 6, 8, 10) and not every.weaknesses
    monkeypatch.setattr("mindgap.judge.trace.single_operators.SAMPLED_FROM_BYTES", 0)
    found = judged(graph, arrays, products_in(torch.bfloat16), PRODUCTS)
    assert (found.verdict, found.blame, found.culprit) == (every.verdict, every.blame, every.culprit)
    assert (found.example, found.verdicts, found.metrics) == (every.example, every.verdicts, every.metrics)
    # The first one's operand is an input of the graph, which a runtime may treat in another way.
    assert found.faults[0].fault.nodes == (0, 2, 10)
    (weak,) = found.weaknesses
    assert (weak.missing, weak.reason) == (
        "dtype policy",
        "5 of 12 nodes were run alone, the first and the last of each distinct call",
    )
    assert found.detail.endswith(weak.reason)


def test_what_a_sample_left_out_is_found_by_the_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample shows the policy alone. It does not explain the outputs, so that all nodes are run."""

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        found = products_in(torch.bfloat16)(graph, index, result, args)
        # A job of single operators has other numbers: the weight tells the node.
        return found * 1.5 if len(args) > 1 and torch.equal(args[1], third) else found

    graph, arrays = many_products()
    third = torch.from_numpy(np.asarray(arrays[3]))
    monkeypatch.setattr("mindgap.judge.trace.single_operators.SAMPLED_FROM_BYTES", 0)
    found = judged(graph, arrays, fault, PRODUCTS)
    assert found.culprit is not None and (found.culprit.op, found.culprit.node) == ("aten.mm.default", 4)
    assert not found.weaknesses


def one_wrong_operator_beside() -> tuple[Graph, list[Any], Fault]:
    """Two products, and an exponential that is wrong by half, of which only the sign is looked at."""
    arrays = [normal(8, 64), normal(64, 64, seed=1), normal(64, 64, seed=2)]
    calls = [
        ("m", "aten.mm.default", "i0", "i1"), ("e", "aten.exp.default", "i0"), ("s", "aten.gt.Scalar", "e", 0),
        ("p", "aten.mm.default", "m", "i2"), ("w", "aten.where.self", "s", "p", "i0"),
    ]  # fmt: skip

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        found = products_in(torch.bfloat16)(graph, index, result, args)
        return found * 1.5 if "exp" in graph.nodes[index].op else found

    return build(arrays, calls, ["w"]), arrays, fault


def test_a_wrong_operator_that_changes_no_output_is_not_the_culprit() -> None:
    graph, arrays, fault = one_wrong_operator_beside()
    policy = judged(graph, arrays, fault, PRODUCTS)
    assert policy.culprit is not None
    assert policy.culprit.op == "dtype policy: float32 products computed in bfloat16"
    unknown = judged(graph, arrays, fault, {})
    assert unknown.culprit is not None and unknown.culprit.op == "aten.mm.default"
    assert {each.fault.culprit.op for each in unknown.faults if each.fault.culprit} == {"aten.mm.default"}


def test_what_reads_wrapped_integers_is_the_same_cause() -> None:
    """int32 has no -2**40: its sign is that of what is left of it."""
    stamps = np.array([-(2**40), 2**40, -5, 0, 2**62])
    calls = [("a", "aten.abs.default", "i0"), ("s", "aten.sign.default", "i0")]
    graph = build([stamps], calls, ["a", "s"])
    policy = {"int64": {"computes_in": "int32", "returns": "int64"}}
    found = judged(graph, [stamps], computed_in(torch.int64, torch.int32), policy)
    assert found.culprit is not None and found.culprit.op == "dtype policy: int64 computed in int32"
    assert len(found.faults) == 1 and found.faults[0].fault.nodes == (0, 1)


def test_a_policy_explains_no_window_without_a_value_of_its_dtype() -> None:
    arrays = [normal(8, 8), np.full((4,), 100, np.int8)]
    calls = [("r", "aten.relu.default", "i0"), ("s", "aten.sigmoid.default", "r"), ("i", "aten.add.Tensor", "i1", "i1")]
    graph = build(arrays, calls, ["s", "i"])
    found = judged(graph, arrays, fused_fault, {"int8": {"computes_in": "int8", "overflow": "saturates"}})
    assert found.culprit is not None and found.culprit.op == "aten.relu.default+aten.sigmoid.default"
