"""Which public function calls an operator, found by running candidates."""

from __future__ import annotations

import pytest
import torch

from mindgap.capture import capture
from mindgap.graph import TensorStore, materialise_all
from mindgap.script.public_calls import public_call

X = torch.randn(2, 4, 6, 6)


A = torch.ops.aten


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (lambda x: torch.remainder(x, 0.5), ("torch.remainder",)),
        (lambda x: torch.nn.functional.avg_pool2d(x, 3, 2, 1), ("torch.nn.functional.avg_pool2d",)),
        (lambda x: A._softmax(x, -1, False), ("torch.softmax",)),
        (lambda x: A.native_layer_norm(x, (6,), None, None, 1e-5)[0], ("torch.layer_norm",)),
        (lambda x: A.max_pool2d_with_indices(x, [2, 2])[0], ("torch.max_pool2d",)),
        (lambda x: torch.linalg.vector_norm(x, 3), ("torch.linalg.vector_norm",)),
        (lambda x: x.reshape(8, 36), ("torch.reshape", "torch.Tensor.view", "torch.Tensor.reshape")),
        (lambda x: A._native_batch_norm_legit(x, None, None, torch.zeros(4), torch.ones(4), True, 0.1, 1e-5)[0],
         ("torch.nn.functional.batch_norm",)),
    ],
)  # fmt: skip
def test_the_function_that_a_user_calls(program, names: tuple[str, ...], tmp_path) -> None:
    tensors = TensorStore(tmp_path)
    graph = capture(program, (X,), tensors=tensors)
    found = public_call(graph, len(graph.nodes) - 1, materialise_all(graph, tensors))
    assert found is not None and found.name in names


def test_what_writes_to_its_operand_keeps_its_name(tmp_path) -> None:
    graph = capture(lambda x: x.clone().add_(1), (X,), tensors=TensorStore(tmp_path))
    assert public_call(graph, 1, materialise_all(graph, TensorStore(tmp_path))) is None
