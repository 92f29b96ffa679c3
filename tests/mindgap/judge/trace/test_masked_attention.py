"""Masks of the most negative finite number are no scores: attention under them is judged like any other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.aten.tensors import to_numpy
from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec
from mindgap.judge.oracle import local_expectation
from mindgap.judge.oracle.oracle import Oracle
from mindgap.judge.trace.single_operators import kind_of_error


def test_an_error_under_a_finite_mask_is_seen() -> None:
    torch.manual_seed(0)
    q = torch.randn(1, 2, 6, 8)
    mask = torch.zeros(6, 6).masked_fill(torch.ones(6, 6).tril() == 0, torch.finfo(torch.float32).min)
    spec, flat = TensorSpec.contiguous("float32", (1, 2, 6, 8)), TensorSpec.contiguous("float32", (6, 6))
    node = Node("aten.scaled_dot_product_attention.default", (Ref(0), Ref(0), Ref(0), Ref(1)), (), (spec,))
    graph = Graph((Input(spec, Constant(0)), Input(flat, Constant(0))), (node,), (2,))
    expected = local_expectation(Oracle(graph, [to_numpy(q), to_numpy(mask)]), 0)
    right = torch.nn.functional.scaled_dot_product_attention(q, q, q, mask).numpy()
    assert kind_of_error(expected.examine(0, right)) is None
    wrong = right.copy()
    wrong[0, 1, 3, 2] *= np.float32(1.001)
    assert kind_of_error(expected.examine(0, wrong)) == "discrepant"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_that_sees_nothing_is_zero_and_another_number_is_no_lower_precision(dtype: str) -> None:
    torch.manual_seed(0)
    shape = (1, 1, 2, 2) if dtype == "float64" else (1, 2, 6, 8)  # few elements and many
    q, mask = torch.randn(shape, dtype=getattr(torch, dtype)), torch.zeros(shape[2], shape[2], dtype=torch.bool)
    spec, flat = TensorSpec.contiguous(dtype, shape), TensorSpec.contiguous("bool", tuple(mask.shape))
    node = Node("aten.scaled_dot_product_attention.default", (Ref(0), Ref(0), Ref(0), Ref(1)), (), (spec,))
    graph = Graph((Input(spec, Constant(0)), Input(flat, Constant(0))), (node,), (2,))
    expected = local_expectation(Oracle(graph, [to_numpy(q), to_numpy(mask)]), 0)
    right = torch.nn.functional.scaled_dot_product_attention(q, q, q, mask)
    assert not right.any()
    assert kind_of_error(expected.examine(0, right.numpy())) is None
    uniform = q.mean(-2, keepdim=True).expand(shape)  # what ONNX Runtime gives: a softmax of equal scores
    assert kind_of_error(expected.examine(0, uniform.contiguous().numpy())) == "discrepant"
