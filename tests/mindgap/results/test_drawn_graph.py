"""Which nodes are drawn around a culprit, and what is known of their values on both sides."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.graph_capture import capture
from mindgap.judge.trace.roles import value_difference
from mindgap.results.drawn_graph import AFTER, BEFORE, MOST_AROUND, around, drawn_nodes, submodule_nodes


def test_the_nodes_around_a_culprit_are_those_a_few_edges_away() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = x.sin()
        return x

    graph = capture(chain, (torch.ones(3),))
    assert around(graph, [10]) == [*range(10 - BEFORE, 10 + AFTER + 1)]
    assert around(graph, [0]) == [*range(AFTER + 1)]
    nodes = drawn_nodes(graph, {10: "introduces"}, around(graph, [10]))
    assert [node.reads for node in nodes] == [(), *((n,) for n in range(BEFORE + AFTER))]
    assert [node.node for node in nodes if node.role] == [10] and nodes[0].made == ("float32[3]",)


def test_of_many_nodes_the_nearest_are_drawn() -> None:
    graph = capture(lambda x: sum(x.sin().exp() + k for k in range(100)), (torch.ones(3),))
    last = len(graph.nodes) - 1
    near = around(graph, [last])
    assert last in near and len(near) <= MOST_AROUND
    wide = capture(lambda x: tuple((y := x.sin()) + k for k in range(1)) + tuple(y.exp() + k for k in range(90)),
                   (torch.ones(3),))  # fmt: skip
    assert len(around(wide, [0])) == MOST_AROUND


def test_the_nodes_of_a_submodule_are_those_that_its_forward_makes() -> None:
    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.ab = torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.Tanh()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.ab(self.a(x))

    graph = capture(Outer(), (torch.ones(1, 2),))
    (linear,) = submodule_nodes(graph, "a")
    assert graph.nodes[linear].op == "aten.linear.default"
    assert submodule_nodes(graph, "") == [*range(len(graph.nodes))]


def test_a_difference_counts_what_is_not_finite_and_measures_the_rest() -> None:
    ours = np.array([1.0, 2.0, np.nan, np.inf], np.float32)
    theirs = np.array([1.0, 2.5, 3.0, np.inf], np.float32)
    found = value_difference(ours, theirs)
    assert found.max_abs == 0.5 and found.relative == float("inf")
    assert (found.platform.least, found.platform.largest, found.platform.non_finite) == (1.0, 2.0, 2)
    assert found.reference.mean == pytest.approx(6.5 / 3) and found.reference.non_finite == 1
    assert value_difference(ours, theirs[:3]).max_abs is None
    wrapped = value_difference(np.array([-128, 1], np.int8), np.array([127, 1], np.int8))
    assert wrapped.max_abs == 255.0 and wrapped.relative == 0.5
    none = value_difference(np.full(2, np.nan, np.float32), np.full(2, np.nan, np.float32))
    assert none.platform.mean is None and none.max_abs is None and none.relative == 0.0
    assert value_difference(np.zeros(0, np.float32), np.zeros(0, np.float32)).platform.non_finite == 0
