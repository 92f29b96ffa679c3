"""How an operator lost precision: a number rounded to float32, or sums kept in 16 bits."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import mindgap
from judge.oracle.bench import PLATFORM, Bench, build, normal, one_element, scaled, wrong_at
from mindgap.graph import Graph
from mindgap.judge.oracle import Oracle
from mindgap.judge.trace.judgement import Judgement
from mindgap.judge.trace.wrong_rules import wrong_rule

EPS = struct.unpack("f", struct.pack("f", 1e-5))[0]
TENTH = struct.unpack("f", struct.pack("f", 0.1))[0]
norm = torch.nn.functional


def found_at(calls: list[tuple[Any, ...]], arrays: list[Any], instead: Callable[..., torch.Tensor]) -> Judgement:
    """The judgement where the last operator gives what `instead` makes of its operands."""
    graph = build(arrays, calls, [calls[-1][0]])

    def fault(g: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        return (
            instead(*(a for a in args if isinstance(a, torch.Tensor))) if g.nodes[index].op == calls[-1][1] else result
        )

    return Bench({PLATFORM: fault}).judge(graph, arrays)


DOUBLES = [normal(8, 64, dtype="float64")]
BATCH = [
    normal(2, 3, 4, 4, dtype="float64"),
    normal(3, seed=1, dtype="float64"),
    abs(normal(3, seed=2, dtype="float64")),
]
FACTORS = [normal(8, 8, seed=k, dtype="float64") for k in range(3)]
NUMBERS: dict[str, tuple[tuple[Any, ...], list[Any], Callable[..., torch.Tensor], str]] = {
    "a default": (("aten.layer_norm.default", "i0", [64]), DOUBLES, lambda t: norm.layer_norm(t, [64], eps=EPS), "eps"),
    "given": (
        ("aten.batch_norm.default", "i0", None, None, "i1", "i2", False, 0.1, 1e-5, False), BATCH,
        lambda t, m, v: norm.batch_norm(t, m, v, eps=EPS), "eps",
    ),
    "an operand": (("aten.mul.Tensor", "i0", 0.1), DOUBLES, lambda t: t * TENTH, "other"),
    "one of two": (
        ("aten.threshold.default", "i0", 0.1, 0.1), DOUBLES, lambda t: norm.threshold(t, 0.1, TENTH), "value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_rounded_to_float32_is_named(name: str) -> None:
    (op, *args), arrays, instead, number = NUMBERS[name]
    found = found_at([("a", op, *args)], arrays, instead)
    assert (found.verdict, found.blame) == ("reduced_precision", "platform")
    became = f"{1e-5!r} became {EPS!r}" if number == "eps" else f"{0.1!r} became {TENTH!r}"
    assert f"as if {number} were rounded to float32, as attributes in ONNX are ({became})" in found.detail


@pytest.mark.parametrize(
    "instead",
    [
        lambda t: norm.layer_norm(t.float(), [64]).double(),
        lambda t: norm.layer_norm(t, [64], eps=1.1e-5),
        lambda t: norm.layer_norm(t, [64], eps=EPS).float().double(),
    ],
)
def test_other_errors_in_float64_name_no_number(instead: Callable[..., torch.Tensor]) -> None:
    found = found_at([("a", "aten.layer_norm.default", "i0", [64])], DOUBLES, instead)
    assert found.verdict in ("reduced_precision", "discrepant") and "rounded to float32" not in found.detail


def test_an_infinite_number_is_judged() -> None:
    calls = [("a", "aten.hardtanh.default", "i0", float("-inf"), float("inf"))]
    assert found_at(calls, DOUBLES, lambda t: t + 1).verdict == "discrepant"


def narrow_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a·bᵀ, one product after the other, each sum rounded to the dtype of a."""
    total = torch.zeros(a.shape[0], b.shape[0], dtype=a.dtype)
    for left, right in zip(a.unbind(1), b.unbind(1), strict=True):
        total = (total.float() + left.float()[:, None] * right.float()[None]).to(a.dtype)
    return total


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("terms", [9, 64, 512])
def test_sums_in_16_bits(dtype: str, terms: int) -> None:
    arrays = [normal(24, terms, dtype=dtype), normal(24, terms, seed=1, dtype=dtype)]
    found = found_at([("a", "aten.linear.default", "i0", "i1")], arrays, narrow_product)
    assert (found.verdict, found.blame) == ("reduced_precision", "platform")
    assert f"as if sums were accumulated in {dtype}" in found.detail


@pytest.mark.parametrize("damage", [one_element(50, 2.0), scaled(1.1), lambda y: y + 1])
def test_wrong_products_in_16_bits_stay_discrepant(damage: Any) -> None:
    arrays = [normal(24, 64, dtype="float16"), normal(24, 64, seed=1, dtype="float16")]
    graph = build(arrays, [("a", "aten.linear.default", "i0", "i1")], ["a"])
    found = Bench({PLATFORM: wrong_at("linear", damage)}).judge(graph, arrays)
    assert found.verdict == "discrepant" and "accumulated" not in found.detail


def test_means_in_float16() -> None:
    arrays = [normal(64, 512, dtype="float16")]
    ones = torch.ones(1, 512, dtype=torch.float16)
    found = found_at([("a", "aten.mean.dim", "i0", [1])], arrays, lambda t: narrow_product(t, ones)[:, 0] / 512)
    assert found.verdict == "reduced_precision" and "accumulated in float16" in found.detail


class Normalised(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (64,))


@pytest.mark.nightly
def test_the_onnx_exporter_rounds_epsilon() -> None:
    torch.manual_seed(0)
    report = mindgap.diff(
        Normalised(), (torch.randn(8, 64, dtype=torch.float64),), platforms=["onnxruntime/cpu"], own_path=False
    )
    (row,) = report.rows
    assert (row.verdict, row.blame) == ("reduced_precision", "platform")
    assert "as if eps were rounded to float32" in row.detail


@pytest.mark.parametrize(
    ("operand", "verdict"),
    [
        (np.ones(4), "discrepant"),
        (np.linspace(0.5, 2.0, 64), "discrepant"),
        (np.linspace(0.5, 2.0, 64, dtype=np.float32), "discrepant"),
        # A sum in bfloat16 may give this too.
        (np.ones(64, np.float32), "reduced_precision"),
    ],
)
def test_an_operator_that_is_left_out_is_not_one_in_fewer_bits(operand: Any, verdict: str) -> None:
    """onnxscript's optimiser takes a small addend for zero."""
    addend = 1e-12 if operand.dtype == np.float64 else 1e-3
    found = found_at([("a", "aten.add.Tensor", "i0", addend)], [operand], lambda x: x.clone())
    assert (found.verdict, found.blame) == (verdict, "platform")
    assert ("as if nothing were added" in found.detail) == (verdict == "discrepant")


@pytest.mark.parametrize(
    ("operand", "addend", "named"),
    [
        (np.ldexp(1 + np.arange(32) / 1024, 20).astype(np.float32), np.float32(300), False),  # TF32 holds it
        (np.ldexp(1 + np.arange(32) / 4096, 20).astype(np.float32), np.float32(300), True),
        ((np.arange(1, 33) * 256).astype(np.float16), np.float16(0.5), False),  # bfloat16 holds it
        ((np.arange(32) * 33).astype(np.float16), np.float16(0.5), True),
        (np.arange(32.0), np.float64(1e-12), True),
    ],
)
def test_an_operand_that_a_narrower_format_holds_may_be_its_sum(operand: Any, addend: Any, named: bool) -> None:
    graph = build([operand, np.asarray(addend)], [("y", "aten.add.Tensor", "i0", "i1")], ["y"])
    oracle = Oracle(graph, [operand, np.asarray(addend)])
    rule = wrong_rule(oracle, graph.producer[graph.outputs[0]], {graph.outputs[0]: operand})
    assert (rule.phrase if rule is not None else "") == ("as if nothing were added" if named else "")
