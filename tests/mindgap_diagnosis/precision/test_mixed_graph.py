"""Graphs in two formats, against modules in these formats."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from mindgap.graph import TensorStore
from mindgap_diagnosis.precision.mixed_graph import mixed_graph
from precision.eager_here import target_of

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@pytest.fixture
def tensors(tmp_path: Path) -> TensorStore:
    torch.manual_seed(0)
    return TensorStore(tmp_path)


def net() -> nn.Sequential:
    layers = (nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Unflatten(1, (2, 4)), nn.Flatten(), nn.Linear(8, 3))
    return nn.Sequential(*layers).eval()


@pytest.mark.parametrize("to", DTYPES)
def test_with_none_kept_it_computes_as_the_module_in_that_format(to: str, tensors: TensorStore) -> None:
    model, x = net(), torch.randn(4, 6)
    (given,) = target_of(model, (x,), to, tensors).outputs(frozenset())
    with torch.no_grad():
        expected = model.to(DTYPES[to])(x.to(DTYPES[to]))
    np.testing.assert_array_equal(given, expected.double().numpy())


def test_with_all_kept_it_is_the_program(tensors: TensorStore) -> None:
    target = target_of(net(), (torch.randn(4, 6),), "float16", tensors)
    mixed = mixed_graph(target.graph, target.of, frozenset(range(3)), "float16")
    assert mixed.nodes == target.graph.nodes
    assert mixed.outputs == target.graph.outputs


def test_a_kept_layer_reads_and_gives_float32_and_moves_of_its_result_stay_so(tensors: TensorStore) -> None:
    target = target_of(net(), (torch.randn(4, 6),), "float16", tensors)
    assert [each.kind for each in target.of.operators] == [
        "aten.linear.default", "aten.layer_norm.default", "aten.linear.default",
    ]  # fmt: skip
    mixed = mixed_graph(target.graph, target.of, frozenset((1,)), "float16")
    by_op = {node.op: node.outputs[0].dtype for node in mixed.nodes if node.op != "aten._to_copy.default"}
    assert by_op["aten.layer_norm.default"] == "float32"
    assert by_op["aten.relu.default"] == "float32"
    assert by_op["aten.linear.default"] == "float16"
