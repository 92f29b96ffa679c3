"""Reductions with checks that need no platform: what is left is as small as the guarantees of the passes say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from mindgap.aten.dead_nodes import known_at_load
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_torch
from mindgap.findings.reduction import Answer, ReductionLimits, reduce, simplicity
from mindgap.findings.reduction.passes import find_integer
from mindgap.graph import Constant, Graph, GraphError, TensorStore, materialise, materialise_all, operands, validate
from mindgap.graph_capture import capture


def run(graph: Graph, store: TensorStore) -> list[torch.Tensor]:
    arrays = materialise_all(graph, store)
    return Tape(graph).run([to_torch(a, i.spec) for a, i in zip(arrays, graph.inputs, strict=True)])


@pytest.fixture
def store(tmp_path) -> TensorStore:
    return TensorStore(tmp_path)


def captured(function, *args, store: TensorStore) -> Graph:
    return capture(function, args, tensors=store)


@given(st.integers(0, 300), st.integers(0, 300))
def test_find_integer_is_the_largest_that_works(answer: int, most: int) -> None:
    calls: list[int] = []
    found = find_integer(lambda n: calls.append(n) or n <= answer, most)
    assert found == min(answer, most)
    assert len(calls) <= 6 + 2 * int(answer + 1).bit_length()


def test_a_long_program_becomes_the_operator_that_makes_nan(store: TensorStore) -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(x @ w) + 1
        z = torch.log(torch.sin(y * 3) - 0.5)
        return torch.softmax(z, -1) * 2, y.sum()

    graph = captured(program, torch.randn(5, 7), torch.randn(7, 6), store=store)

    def check(graph: Graph) -> Answer:
        if any(np.isnan(array).any() for array in materialise_all(graph, store)):
            return "other"
        return "shows" if any(bool(x.isnan().any()) for x in run(graph, store)) else "calm"

    found = reduce(graph, check, store)
    validate(found.graph)
    assert found.complete and [node.op for node in found.graph.nodes] == ["aten.log.default"]
    (only,) = found.graph.inputs
    assert only.spec.numel == 1 and len(str(materialise(only, store).item())) <= 20
    assert check(found.graph) == "shows" and simplicity(found.graph) < simplicity(graph)
    assert found.passing is not None and check(found.passing) == "calm"


def test_a_fault_of_constant_folding_keeps_a_constant_and_not_what_makes_it(store: TensorStore) -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.rand(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x) * (self.get_buffer("scale").exp() + 1).sqrt()

    graph = captured(Scaled(), torch.randn(2, 4), store=store)

    def check(graph: Graph) -> Answer:
        known = known_at_load(graph)
        products = [node for node in graph.nodes if node.op == "aten.mul.Tensor"]
        return "shows" if any(not known.isdisjoint(operands(node)) for node in products) else "calm"

    found = reduce(graph, check, store)
    assert [node.op for node in found.graph.nodes] == ["aten.mul.Tensor"] and len(graph.nodes) == 5
    assert "constant" in [given.role for given in found.graph.inputs]


def test_shapes_and_attributes_shrink_together(store: TensorStore) -> None:
    graph = captured(
        lambda x: torch.nn.functional.avg_pool2d(x, 3, 2, 1).view(2, 45), torch.randn(2, 5, 6, 6), store=store
    )

    def check(graph: Graph) -> Answer:
        pools = [node for node in graph.nodes if "avg_pool2d" in node.op]
        fed = [graph.values[node.args[0].index] for node in pools]  # type: ignore[union-attr]
        return "shows" if any(spec is not None and spec.shape[-1] >= 3 for spec in fed) else "calm"

    found = reduce(graph, check, store)
    assert len(found.graph.nodes) == 1 and found.graph.inputs[0].spec.shape[-1] == 3
    assert found.graph.inputs[0].spec.numel == 3 and found.graph.inputs[0].recipe == Constant(0)


def test_operands_in_place_hold_what_the_operator_read(store: TensorStore) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.add_(10)
        return torch.sqrt(20 - y)

    graph = captured(program, torch.full((3,), 50.0), store=store)

    def check(graph: Graph) -> Answer:
        return "shows" if any(bool(x.isnan().any()) for x in run(graph, store)) else "calm"

    found = reduce(graph, check, store, nodes=(len(graph.nodes) - 1,))
    assert [node.op for node in found.graph.nodes] == ["aten.sqrt.default"]
    assert np.isnan(run(found.graph, store)[0].numpy()).all()


def test_a_set_of_operators_stays_a_set(store: TensorStore) -> None:
    graph = captured(lambda x: torch.exp(torch.neg(torch.abs(torch.sin(x) + 1) * 2)), torch.randn(4, 4), store=store)

    def check(graph: Graph) -> Answer:
        ops = {node.op.split(".")[1] for node in graph.nodes}
        return "shows" if {"abs", "exp"} <= ops else "calm"

    found = reduce(graph, check, store)
    assert sorted(node.op.split(".")[1] for node in found.graph.nodes) == ["abs", "exp"]
    assert found.graph.inputs[0].spec.numel == 1


def test_limits_end_it_early_and_say_so(store: TensorStore) -> None:
    graph = captured(lambda x: torch.sin(torch.cos(torch.sin(torch.cos(x)))), torch.randn(64), store=store)
    found = reduce(graph, lambda _: "shows", store, limits=ReductionLimits(checks=2))
    assert not found.complete and found.checks == 2 and len(found.graph.nodes) < 4


def test_a_graph_without_the_symptom_is_refused(store: TensorStore) -> None:
    graph = captured(torch.sin, torch.randn(3), store=store)
    with pytest.raises(GraphError, match="does not show the symptom"):
        reduce(graph, lambda _: "calm", store)
