"""Results of an algebraically equal form are told from results in fewer bits and from wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import mindgap
from judge.oracle.bench import PLATFORM, Bench, Fault, build, normal
from mindgap.aten.tensors import to_numpy
from mindgap.graph import Graph, operands
from mindgap.judge.trace.reassociation import REASSOCIATED, is_reassociated

Form = Callable[[torch.Tensor], torch.Tensor]


def near_one() -> Any:
    return normal(32, 32, scale=1e-2, shift=1.0)


def in_another_form(form: Form) -> Fault:
    """A platform that computes a subtraction and the product after it, where both are in one graph, as `form`."""
    seen: dict[int, torch.Tensor] = {}

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        if graph.nodes[index].op == "aten.sub.Tensor":
            seen[graph.first_value[index]] = args[0]
        read = operands(graph.nodes[index])[:1]
        joined = graph.nodes[index].op == "aten.mul.Tensor" and read and read[0] >= len(graph.inputs)
        return form(seen[read[0]]) if joined and read[0] in seen else result

    return fault


def judged(form: Form) -> Any:
    arrays = [near_one()]
    graph = build(arrays, [("a", "aten.sub.Tensor", "i0", 1.0), ("b", "aten.mul.Tensor", "a", 1e4)], ["b"])
    return Bench({PLATFORM: in_another_form(form)}).judge(graph, arrays)


def test_a_distributed_product_is_no_reduced_precision() -> None:
    found = judged(lambda x: x * 1e4 - 1e4)
    assert (found.verdict, found.blame) == ("discrepant", "platform")
    assert found.culprit is not None and found.culprit.op == "aten.sub.Tensor+aten.mul.Tensor"
    assert REASSOCIATED in found.detail


@pytest.mark.parametrize(
    ("form", "verdict"),
    [
        (lambda x: ((x - 1).bfloat16() * 1e4).float(), "reduced_precision"),
        (lambda x: (x.bfloat16().float() - 1) * 1e4, "discrepant"),
        (lambda x: (x - 1) * 1.01e4, "reduced_precision"),
        (lambda x: (x - 0.999) * 1e4, "discrepant"),
    ],
)
def test_other_results_of_the_same_operators_are_told_apart(form: Form, verdict: str) -> None:
    found = judged(form)
    assert found.verdict == verdict and REASSOCIATED not in found.detail


def outputs_of(form: Callable[..., torch.Tensor], arrays: Sequence[Any]) -> list[Any]:
    return [to_numpy(form(*(torch.from_numpy(a.copy()) for a in arrays)))]


x, w, m = near_one(), normal(8, 4, 3, 3, seed=1, scale=0.2), normal(8, seed=2, scale=30.0)
image, variance = normal(1, 4, 6, 6, seed=3), np.abs(normal(8, seed=4)) * 1e-3 + 1e-4
FORMS: dict[str, tuple[list[Any], list[tuple[Any, ...]], Callable[..., torch.Tensor]]] = {
    "sum of constants": (
        [x], [("a", "aten.add.Tensor", "i0", -1.0), ("b", "aten.add.Tensor", "a", 1e-3)], lambda t: t + (1e-3 - 1),
    ),
    "product of constants": (
        [x], [("a", "aten.mul.Tensor", "i0", 3.3), ("b", "aten.mul.Tensor", "a", 7.7)], lambda t: t * (3.3 * 7.7),
    ),
    "quotient": (
        [x], [("a", "aten.sub.Tensor", "i0", 0.5), ("b", "aten.div.Tensor", "a", 1e-3)], lambda t: t * 1e3 - 500,
    ),
    "negated": (
        [x], [("a", "aten.sub.Tensor", "i0", 1.0), ("b", "aten.neg.default", "a"), ("c", "aten.mul.Tensor", "b", 1e4)],
        lambda t: 1e4 - t * 1e4,
    ),
    "batch norm in a convolution": (
        [image, w, m, variance.astype(np.float32)],
        [("a", "aten.conv2d.default", "i0", "i1"),
         ("b", "aten.batch_norm.default", "a", None, None, "i2", "i3", False, 0.1, 1e-5, False)],
        lambda t, k, mean, v: torch.conv2d(
            t, k * (s := (v + 1e-5).rsqrt())[:, None, None, None], -mean * s
        ),
    ),
    "scaled matrix": (
        [x, normal(32, 8, seed=5)],
        [("a", "aten.sub.Tensor", "i0", 1.0), ("b", "aten.mm.default", "a", "i1"), ("c", "aten.mul.Tensor", "b", 1e3)],
        lambda t, k: t @ (k * 1e3) - (k * 1e3).sum(0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_rounding_of_an_equal_form_is_recognised(name: str) -> None:
    arrays, calls, form = FORMS[name]
    graph = build(arrays, calls, [calls[-1][0]])
    right = outputs_of(form, arrays)
    assert is_reassociated(graph, arrays, right)
    spread = float(np.abs(right[0]).max())
    assert not is_reassociated(graph, arrays, [right[0] + np.float32(0.01 * spread)])
    shaken = right[0].copy()
    shaken.flat[0] = np.nan
    assert not is_reassociated(graph, arrays, [shaken])


def test_other_operators_have_no_equal_form() -> None:
    arrays = [near_one()]
    graph = build(arrays, [("a", "aten.sub.Tensor", "i0", 1.0), ("b", "aten.exp.default", "a")], ["b"])
    assert not is_reassociated(graph, arrays, outputs_of(lambda t: (t - 1).exp(), arrays))


class Distributed(torch.nn.Module):
    def forward(self, p: torch.Tensor) -> torch.Tensor:
        return (p - 1) * 10000


@pytest.mark.nightly
def test_openvino_distributes_a_product() -> None:
    torch.manual_seed(0)
    platform = "openvino/cpu@precision=f32"
    report = mindgap.diff(Distributed(), (torch.rand(64, 64) * 2e-2 + 0.99,), platforms=[platform], own_path=False)
    (row,) = report.rows
    assert row.verdict == "discrepant" and REASSOCIATED in row.detail
