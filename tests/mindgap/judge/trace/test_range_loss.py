"""A platform that keeps float32 between operators is right where eager mode leaves the range of float16 there."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from judge.oracle.bench import PLATFORM, Bench, build, normal, one_element, scaled, wrong_at
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import TORCH_DTYPES, to_numpy, to_torch
from mindgap.graph import Graph
from mindgap.run.outcome import Job, Outcome


class KeepsFloat32(Bench):
    """Its platform holds values of float16 in float32 from the inputs of a job to its outputs."""

    def execute(self, job: Job) -> Outcome:
        if job.platform != PLATFORM:
            return super().execute(job)
        graph, fault = job.graph, self.faults.get(PLATFORM)

        def call(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
            result = function(*args, **kwargs)
            return result if fault is None else fault(graph, index, result, args)

        inputs = [to_torch(job.inputs[i], given.spec) for i, given in enumerate(graph.inputs)]
        with torch.no_grad():
            outputs = Tape(graph).run([x.float() if x.dtype == torch.float16 else x for x in inputs], call=call)
        specs = [graph.values[number] for number in graph.outputs]
        kept = [y.to(TORCH_DTYPES[s.dtype]) for y, s in zip(outputs, specs, strict=True) if s is not None]
        return Outcome(job.platform, "", "ok", arrays=tuple(to_numpy(y).copy() for y in kept))


Case = tuple[Graph, list[Any]]


def of(calls: list[tuple[Any, ...]], scale: float, *outputs: str) -> Case:
    x = normal(4, 64, dtype="float16", scale=scale)
    return build([x], calls, outputs or ["y"]), [x]


SQUARE = of([("a", "aten.mul.Tensor", "i0", "i0"), ("y", "aten.mul.Tensor", "a", 1e-3)], 300)
NORM = of([
    ("a", "aten.mul.Tensor", "i0", "i0"), ("b", "aten.mean.dim", "a", [-1], True), ("c", "aten.add.Tensor", "b", 1e-5),
    ("d", "aten.rsqrt.default", "c"), ("y", "aten.mul.Tensor", "i0", "d"),
], 300)  # fmt: skip
SOFTMAX = of([
    ("a", "aten.exp.default", "i0"), ("b", "aten.sum.dim_IntList", "a", [-1], True), ("y", "aten.div.Tensor", "a", "b"),
], 6)  # fmt: skip
SUM = of([("a", "aten.abs.default", "i0"), ("b", "aten.sum.dim_IntList", "a", [-1], True),
          ("y", "aten.div.Tensor", "b", 64)], 3000)  # fmt: skip
LOGARITHM = of([("a", "aten.exp.default", "i0"), ("y", "aten.log.default", "a")], 12)
OFFSET = of([("a", "aten.add.Tensor", "i0", 60000.0), ("y", "aten.sub.Tensor", "a", 50000.0)], 3000)
CASES = {
    "a square": (SQUARE, "aten.mul.Tensor"), "a norm": (NORM, "aten.mul.Tensor"),
    "a softmax": (SOFTMAX, "aten.exp.default"), "a sum": (SUM, "aten.sum.dim_IntList"),
    "underflow before a logarithm": (LOGARITHM, "aten.exp.default"), "an offset": (OFFSET, "aten.add.Tensor"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_calm_and_names_the_operator_that_leaves_the_range(name: str) -> None:
    (graph, arrays), op = CASES[name]
    found = KeepsFloat32().judge(graph, arrays)
    assert found.verdict == "rounding" and found.culprit is None, found.detail
    assert f"the reference leaves the range of float16 at {op}" in found.detail, found.detail


def test_a_platform_that_leaves_the_range_too_is_calm() -> None:
    assert Bench().judge(*SQUARE).verdict == "rounding"


def test_values_that_underflow_without_effect_are_calm() -> None:
    graph, arrays = of([("a", "aten.softmax.int", "i0", -1), ("y", "aten.add.Tensor", "a", 1.0)], 8)
    assert KeepsFloat32().judge(graph, arrays).verdict == "rounding"


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("a square", ["mul"]),
        ("a norm", ["mul"]),
        ("a softmax", ["exp", "sum", "div"]),
        ("a sum", ["abs", "sum", "div"]),
        ("underflow before a logarithm", ["exp", "log"]),
        ("an offset", ["add", "sub"]),
    ],
)
def test_a_fault_of_an_operator_is_found_all_the_same(name: str, ops: list[str]) -> None:
    (graph, arrays), _ = CASES[name]
    for op in ops:
        found = KeepsFloat32({PLATFORM: wrong_at(op, scaled(1.2))}).judge(graph, arrays)
        assert found.blame == "platform", (op, found.verdict, found.detail)


def test_a_fault_of_another_branch_is_found_and_named() -> None:
    graph, arrays = of([("a", "aten.mul.Tensor", "i0", "i0"), ("y", "aten.mul.Tensor", "a", 1e-3),
                        ("z", "aten.sin.default", "i0")], 300, "y", "z")  # fmt: skip
    found = KeepsFloat32({PLATFORM: wrong_at("sin", one_element(5, 0.25))}).judge(graph, arrays)
    assert found.culprit is not None and found.culprit.op == "aten.sin.default"
    assert found.blame == "platform" and found.verdicts == ("rounding", "discrepant") and len(found.faults) == 1
