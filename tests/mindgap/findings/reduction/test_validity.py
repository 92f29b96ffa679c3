"""Which graphs no public function makes, and that a reduction makes no such graph of one that was valid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.findings.reduction import Answer, reduce
from mindgap.findings.reduction.validity import Validity, refusal
from mindgap.graph import Graph, TensorStore, materialise_all
from mindgap.graph_capture import capture

A = torch.ops.aten
SPD = torch.eye(3) + 0.1
NOT_HERMITIAN = SPD + torch.triu(torch.ones(3, 3), 1)
IMAGE = torch.rand(2, 3, 4, 4)
LENGTHS = torch.tensor([2])


def batch_norm(momentum: float, bias: int = 3) -> Callable[..., Any]:
    def program(x: torch.Tensor) -> torch.Tensor:
        mean, var = torch.zeros(3), torch.ones(3)
        return A._native_batch_norm_legit(x, torch.ones(3), torch.zeros(bias), mean, var, True, momentum, 1e-5)[0]

    return program


def unpooled(*places: int) -> Callable[..., Any]:
    def program(x: torch.Tensor) -> torch.Tensor:
        return A.max_unpool2d(x, torch.tensor(places).view(1, 2, 2), [4, 4])

    return program


def ctc(label: int, length: int) -> Callable[..., Any]:
    def program(x: torch.Tensor) -> torch.Tensor:
        return A.ctc_loss.Tensor(x, torch.full((1, 3), label), LENGTHS, torch.tensor([length]), 0, 1, True)

    return program


@pytest.mark.parametrize(
    ("program", "argument", "reason"),
    [
        (batch_norm(0.1), IMAGE, ""),
        (batch_norm(2.0), IMAGE, "momentum is 2, outside [0, 1]"),
        (batch_norm(0.1, bias=1), IMAGE, "bias should contain 3 elements"),
        (lambda x: torch.linalg.pinv(x, hermitian=True), SPD, ""),
        (lambda x: torch.linalg.pinv(x, hermitian=True), NOT_HERMITIAN, "self is not Hermitian"),
        (lambda x: torch.linalg.pinv(x), NOT_HERMITIAN, ""),
        (lambda x: torch.linalg.eigvalsh(x), NOT_HERMITIAN, "is not Hermitian"),
        (lambda x: torch.linalg.cholesky(x), SPD, ""),
        (lambda x: torch.linalg.cholesky_ex(x), -SPD, "is not Hermitian positive definite"),
        (unpooled(0, 2, 8, 10), IMAGE[0, :1, :2, :2], ""),
        (unpooled(0, 0, 8, 10), IMAGE[0, :1, :2, :2], "names a place twice"),
        (lambda x: torch.bucketize(x, torch.tensor([1.0, 0.0])), IMAGE, "boundaries is not sorted"),
        (lambda x: torch.nn.functional.embedding_bag(torch.tensor([0, 1, 2]), x, torch.tensor([0, 2, 1])), SPD,
         "offsets does not start at 0, falls"),
        (lambda x: torch.nn.functional.binary_cross_entropy_with_logits(x, x + 1), IMAGE, "outside [0, 1]"),
        (lambda x: torch.nn.functional.cross_entropy(x, x + 1), IMAGE, "outside [0, 1]"),
        (ctc(1, 2), torch.randn(2, 1, 4), ""),
        (ctc(0, 2), torch.randn(2, 1, 4), "the blank"),
        (ctc(1, 3), torch.randn(2, 1, 4), "target_lengths is larger than input_lengths"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::mindgap.graph_capture.errors.UnprovenCapture")  # some read what no input holds
def test_demands_that_eager_does_not_check(
    program: Callable[..., Any], argument: torch.Tensor, reason: str, tmp_path: Path
) -> None:
    store = TensorStore(tmp_path)
    graph = capture(program, (argument.clone(),), tensors=store, verify=False)
    found = refusal(graph, materialise_all(graph, store))
    assert (reason in found and found.startswith("Node ") and found.endswith(".")) if reason else found == "", found


def test_a_valid_graph_stays_valid(tmp_path: Path) -> None:
    """The smallest graph with the symptom has a bias of one element, which `batch_norm` refuses."""
    store = TensorStore(tmp_path)
    program = batch_norm(0.25)
    graph = capture(lambda x: program(torch.relu(x)), (IMAGE,), tensors=store)

    def check(graph: Graph) -> Answer:
        return "shows" if any("batch_norm" in node.op for node in graph.nodes) else "calm"

    found = reduce(graph, check, store).graph
    assert refusal(graph, materialise_all(graph, store)) == refusal(found, materialise_all(found, store)) == ""
    (node,) = (node for node in found.nodes if "batch_norm" in node.op)
    channels = {found.values[arg.index].shape[0] for arg in node.args[1:5]}  # type: ignore[union-attr]
    assert len(channels) == 1 and found.inputs[0].spec.numel < IMAGE.numel()


def test_an_invalid_graph_may_stay_invalid(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    program = batch_norm(2.0)
    graph = capture(lambda x: program(torch.relu(x)), (IMAGE,), tensors=store)

    def check(graph: Graph) -> Answer:
        shown = any("batch_norm" in node.op and node.args[6] == 2.0 for node in graph.nodes)
        return "shows" if shown else "calm"

    assert len(reduce(graph, check, store).graph.nodes) < len(graph.nodes)


def test_large_graphs_are_not_checked(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    graph = capture(lambda x: torch.sin(x), (torch.zeros(1 << 22),), tensors=store)
    assert Validity(store).refused_operator(graph) is None
