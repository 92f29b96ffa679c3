"""Operators with one right answer: every way to get it wrong is a finding, the right answer never is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.applied import applied
from judge.oracle.bench import PLATFORM, Bench, build, normal, wrong_at
from judge.oracle.exact_cases import Exact, all_cases, graph_of, judged
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import DType, Graph
from mindgap.judge.oracle import Oracle

CASES = {case.name: case for case in all_cases()}
WRONG = [(name, way) for name, case in CASES.items() for way in case.wrong]
CALM = ("identical", "rounding")


@pytest.mark.parametrize(("name", "way"), WRONG)
def test_a_wrong_result_is_a_finding_at_its_operator(name: str, way: str) -> None:
    case = CASES[name]
    found = judged(case, graph_of(case), case.wrong[way])
    assert found.verdict in ("discrepant", "exceptional", "reduced_precision"), found.detail
    assert found.culprit is not None and found.culprit.op == case.op


@pytest.mark.parametrize("name", CASES)
def test_pytorch_and_exact_arithmetic_are_calm(name: str) -> None:
    case = CASES[name]
    assert judged(case, graph_of(case), None).verdict in CALM
    if case.right is not None:
        assert judged(case, graph_of(case), case.right).verdict in CALM


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("op", ["remainder.Tensor", "fmod.Tensor", "floor_divide.default", "div.Tensor_mode"])
def test_scalar_kernels_agree_with_exact_fractions(op: str, dtype: str) -> None:
    """The oracle's shadow against Python's own arithmetic, which has no kernel in common with it."""
    x, y = normal(200, dtype=dtype, scale=20.0), normal(200, seed=1, dtype=dtype, scale=3.0)
    name = f"aten.{op}"
    if "mode" in op:
        graph = graph_of(Exact("", "aten.floor_divide.default", (x, y), {}))
        node = graph.nodes[0]
        graph = replace(graph, nodes=(replace(node, op=name, kwargs=(("rounding_mode", "floor"),)),))
    else:
        graph = graph_of(Exact("", name, (x, y), {}))
    oracle = Oracle(graph, [x, y])
    by = {"remainder": lambda a, b: a % b, "fmod": np.fmod}.get(op.split(".")[0], lambda a, b: a // b)
    wide = [to_torch(a).double().numpy() for a in (x, y)]
    pairs = zip(*(w.tolist() for w in wide), strict=True)
    exact = torch.tensor([float(by(a, b)) for a, b in pairs], dtype=torch.float64)
    right = to_numpy(exact.to(to_torch(x).dtype))
    assert oracle.examine([right])[0].kind == "calm"
    shifted = to_numpy((exact + 1).to(to_torch(x).dtype))
    assert oracle.examine([shifted])[0].kind == "discrepant"


def test_casts_round_once_or_by_way_of_a_wider_format() -> None:
    """PyTorch casts float64 to float16 by way of float32."""
    x = np.concatenate([normal(500, dtype="float64"), np.array([1 + 2.0**-11 + 2.0**-40, 1 - 2.0**-12 - 2.0**-40])])
    for name, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        case = Exact(name, "aten._to_copy.default", (x,), {}, (DType(name),))
        ways = [torch.from_numpy(x).to(dtype), torch.from_numpy(x).float().to(dtype)]
        if name == "float16":
            ways.append(torch.from_numpy(x.astype(np.float16)))
        for way in ways:
            assert judged(case, graph_of(case), lambda _, way=way: way).verdict in CALM


def test_a_tiny_result_beside_ordinary_ones_has_errors_of_its_own_size() -> None:
    """exp(x) - 1 instead of expm1: wrong in the one element that is tiny."""
    x = normal(64)
    x[17] = 1e-9
    graph = build([x], [("y", "aten.expm1.default", "i0")], ["y"])
    found = Bench({PLATFORM: wrong_at("expm1", lambda _: torch.from_numpy(np.exp(x) - np.float32(1)))}).judge(
        graph, [x]
    )
    assert found.verdict in ("discrepant", "reduced_precision")


def test_a_tie_that_rounding_upstream_made_may_fall_either_way() -> None:
    """Where operands carry noise, a comparison of equal numbers is undecided; where they do not, it is not."""
    x = normal(50)
    calls = [("s", "aten.sin.default", "i0"), ("y", "aten.ge.Tensor", "s", "s")]
    graph = build([x], calls, ["y"])
    other = Bench({PLATFORM: wrong_at("ge", lambda y: ~y)}).judge(graph, [x])
    assert other.verdict == "discrepant" or other.verdict in CALM
    direct = build([x], [("y", "aten.ge.Tensor", "i0", "i0")], ["y"])
    assert Bench({PLATFORM: wrong_at("ge", lambda y: ~y)}).judge(direct, [x]).verdict == "discrepant"


@pytest.mark.parametrize("op", ["gt.Scalar", "eq.Tensor", "add.Tensor", "sub.Tensor", "fmod.Tensor", "div.Tensor"])
def test_whole_numbers_become_floats_before_they_meet_one(op: str) -> None:
    """Type promotion: 2**24 + 1 is 2**24 in float32, which PyTorch computes in."""
    whole = np.array([2**24 + 1, 2**24 + 3, 5, 2**30 + 1])
    other = 16777216.0 if "Scalar" in op else np.array([2.0**24, 3.0, 5.0, 2.0**30], np.float32)
    arrays = [whole] if "Scalar" in op else [whole, other]
    graph = build(arrays, [("y", f"aten.{op}", "i0", other if "Scalar" in op else "i1")], ["y"])
    right = Bench().judge(graph, arrays)
    assert right.verdict == "identical" or right.verdict in CALM
    oracle = Oracle(graph, arrays)
    floats = torch.from_numpy(whole).float()
    second = other if "Scalar" in op else torch.from_numpy(np.asarray(other))
    name = op.split(".")[0]
    expected = to_numpy(getattr(torch, name)(floats, second))
    assert oracle.examine([expected])[0].kind == "calm"


@pytest.mark.parametrize("op", ["aten.linear.default", "aten.sum.dim_IntList"])
def test_a_factor_folded_into_operands_that_are_whole_numbers_is_rounding(op: str) -> None:
    """A product of whole numbers is exact, a platform that puts the factor after it into the weights rounds."""
    numbers = np.random.default_rng(0)
    x, w = (numbers.integers(-100, 101, (16, 64)).astype(np.float32) for _ in range(2))
    arrays, arguments = ([x, w], ("i0", "i1")) if op == "aten.linear.default" else ([x], ("i0", [1]))
    graph = build(arrays, [("p", op, *arguments), ("y", "aten.mul.Tensor", "p", 0.013)], ["y"])

    def folded(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        made = graph.producer[graph.nodes[index].args[0].index]
        if graph.nodes[index].op != "aten.mul.Tensor" or made < 0:
            return result
        scaled = torch.from_numpy(x) * 0.013
        return scaled @ torch.from_numpy(w).T if op == "aten.linear.default" else scaled.sum(1)

    right = Bench({PLATFORM: folded}).judge(graph, arrays)
    assert right.metrics["max_abs"] > 0 and right.verdict == "rounding"
    wrong = Bench({PLATFORM: wrong_at(op.split(".")[1], lambda y: y + (y == y.max()))}).judge(graph, arrays)
    assert wrong.verdict == "discrepant" and wrong.culprit is not None and wrong.culprit.op == op


def test_matrices_that_are_added_in_bfloat16_round_whole_numbers() -> None:
    """Eager mode adds one matrix after the other in the declared dtype."""
    numbers = np.random.default_rng(0)
    left, right = (torch.from_numpy(numbers.integers(-60, 61, shape)).bfloat16() for shape in ((8, 4, 8), (8, 8, 4)))
    left[4:], right[4:] = left[:4], -right[:4]
    one = applied("aten.addbmm.default", torch.zeros(4, 4, dtype=torch.bfloat16), left, right)
    assert float((one.hard() - 0).max()) > 1.0 and one.kinds() == [None]
    columns = applied("aten.conv_transpose1d.default", torch.ones(1, 2, 8).half(), torch.ones(2, 3, 3).half())
    assert bool((columns.hard() > 0).all()) and columns.kinds() == [None]


def test_gelu_of_whole_numbers_is_not_exact() -> None:
    x = torch.arange(-8.0, 8.0).reshape(4, 4)
    one = applied("aten._addmm_activation.default", torch.zeros(4), x, torch.eye(4), use_gelu=True)
    one_rounding = 2.0**-24 * one.oracle.step.wide(one.graph.outputs[0]).abs()
    assert bool((one.hard() > 1.5 * one_rounding)[x != 0].all())
