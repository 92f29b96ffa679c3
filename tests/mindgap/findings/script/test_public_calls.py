"""Which public function calls an operator, found by running candidates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from mindgap.findings.script.literals import argument
from mindgap.findings.script.public_calls import Call, PublicCall, public_call, visit_calls
from mindgap.graph import Arg, TensorStore, materialise_all
from mindgap.graph_capture import capture

X = torch.rand(2, 4, 6, 6) + 0.1
INDEX = torch.tensor([0, 1])
A = torch.ops.aten
NAMES = {number: f"x{number}" for number in range(20)}


def last_call(program: Callable[..., Any], folder: Path) -> PublicCall | None:
    tensors = TensorStore(folder)
    graph = capture(program, (X,), tensors=tensors)
    return public_call(graph, len(graph.nodes) - 1, materialise_all(graph, tensors))


def write(arg: Arg) -> str:
    return argument(arg, NAMES)


@pytest.mark.parametrize(
    ("program", "source"),
    [
        (lambda x: torch.remainder(x, 0.5), "torch.remainder(x0, 0.5)"),
        (lambda x: F.avg_pool2d(x, 3, 2, 1), "torch.nn.functional.avg_pool2d(x0, [3, 3], [2, 2], [1, 1])"),
        (lambda x: A._softmax(x, -1, False), "torch.nn.functional.softmax(x0, dim=-1)"),
        (lambda x: A.native_layer_norm(x, (6,), None, None, 1e-5)[0],
         "torch.nn.functional.layer_norm(x0, normalized_shape=[6])"),
        (lambda x: F.group_norm(x, 2), "torch.nn.functional.group_norm(x0, num_groups=2)"),
        (lambda x: F.instance_norm(x), "torch.nn.functional.instance_norm(x0)"),
        (lambda x: A.max_pool2d_with_indices(x, [2, 2])[0], "torch.nn.functional.max_pool2d(x0, kernel_size=[2, 2])"),
        (lambda x: F.max_pool2d(x, 2, return_indices=True),
         "torch.nn.functional.max_pool2d(x0, kernel_size=[2, 2], return_indices=True)"),
        (lambda x: torch.linalg.vector_norm(x, 3), "torch.linalg.vector_norm(x0, 3)"),
        (lambda x: torch.linalg.svd(x), "torch.linalg.svd(x0)"),
        (lambda x: A._linalg_det(x)[0], "torch.linalg.det(x0)"),
        (lambda x: A._native_batch_norm_legit(x, None, None, torch.zeros(4), torch.ones(4), True, 0.1, 1e-5)[0],
         "torch.nn.functional.batch_norm(x0, x1, x2, training=True)"),
        (lambda x: torch.max(x, 0), "torch.max(x0, 0)"),
        (lambda x: torch.topk(x, 2), "torch.topk(x0, 2)"),
        (lambda x: F.embedding_bag(INDEX.view(1, 2), torch.ones(4, 3)),
         "torch.nn.functional.embedding_bag(x5, x3, x4)"),
        (lambda x: F.cross_entropy(x, torch.zeros(2, 6, 6, dtype=torch.int64)),
         "torch.nn.functional.cross_entropy(x0, x1)"),
        (lambda x: torch.fft.rfft(x), "torch.fft.rfft(x0)"),
        (lambda x: A._fft_r2c(x, [2, 3], 1, True), "torch.fft.rfftn(x0, dim=[2, 3], norm='ortho')"),
        (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
         "torch.nn.functional.interpolate(x0, scale_factor=[2.0, 2.0], mode='bilinear')"),
        (lambda x: A.upsample_nearest2d(x, [4, 4]), "torch.nn.functional.interpolate(x0, size=[4, 4], mode='nearest')"),
        (lambda x: x.to(torch.float16), "torch.Tensor.to(x0, torch.float16)"),
        (lambda x: torch.add(x, x, alpha=2), "torch.add(x0, x0, alpha=2)"),
        (lambda x: A.add.Scalar(x, 2, 3), "torch.add(x0, 2, alpha=3)"),
        (lambda x: x[:, 1:3], "x0[:, 1:3]"),
        (lambda x: x[:, INDEX], "x0[:, x1]"),
        (lambda x: x.mT, "x0.mT"),
        (lambda x: F.silu(x.clone(), inplace=True), "torch.nn.functional.silu(x1, inplace=True)"),
        (lambda x: x.clone().add_(1), "torch.Tensor.add_(x1, 1)"),
        (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
         "torch.nn.functional.max_unpool2d(x1, x2, [2, 2], output_size=[6, 6])"),
    ],
)  # fmt: skip
def test_the_call_that_a_user_writes(program: Callable[..., Any], source: str, tmp_path: Path) -> None:
    found = last_call(program, tmp_path)
    assert found is not None and found.source(write) == source


def test_results_have_their_slots(tmp_path: Path) -> None:
    found = last_call(lambda x: torch.max(x, 0), tmp_path)
    assert found is not None and found.results == (0, 1) and found.target(["a", "b"]) == "a, b"
    found = last_call(lambda x: A._linalg_det(x)[0], tmp_path)
    assert found is not None and not found.many and found.target(["a", "b", "c"]) == "a"
    found = last_call(lambda x: torch.unbind(x[:1]), tmp_path)
    assert found is not None and found.target(["a"]) == "a,"


def test_what_writes_to_its_operand_has_a_function_that_does_not(tmp_path: Path) -> None:
    found = last_call(lambda x: x.clone().tanh_(), tmp_path)
    assert found is not None and found.functional == "torch.tanh"
    assert found.source(write, functional=True) == "torch.tanh(x1)"
    found = last_call(lambda x: x.tanh_(), tmp_path)
    assert found is not None and found.name == "torch.Tensor.tanh_" and not found.functional, "x is changed for others"


def test_arguments_that_zeros_do_not_show_are_kept(tmp_path: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(torch.zeros_like(x), 2, divisor_override=3)

    found = last_call(program, tmp_path)
    assert found is not None and found.source(write).endswith("(x1, [2, 2], [], [0, 0], False, True, 3)")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda x: A.native_batch_norm(x, None, torch.zeros(1), None, None, True, 0.1, 1e-5)[0],
         "torch.nn.functional.batch_norm refuses its operands: bias should contain 4 elements not 1"),
        (lambda x: A.native_batch_norm(x[:1, :, :1, :1], None, None, None, None, True, 0.1, 1e-5)[0],
         "Expected more than 1 value per channel"),
        (lambda x: A.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1], "reads result 1"),
        (lambda x: A.upsample_nearest2d(x, [4, 4], 3.0, 3.0), "no public function"),
        (lambda x: A.upsample_nearest2d(torch.zeros_like(x), [4, 4], 3.0, 3.0), "no public function"),
        (lambda x: A._chunk_cat([x, x], 0, 2), "no public function"),
        (lambda x: A.elu(x, 0.5, 2.0), "no public function"),
        (lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)), ""),
        (lambda x: A.tanh_backward(x, x), ""),
        (lambda x: F.dropout(x, 0.3), ""),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::mindgap.graph_capture.errors.UnprovenCapture")  # some read what no input holds
def test_why_no_public_function_makes_a_call(program: Callable[..., Any], reason: str, tmp_path: Path) -> None:
    tensors = TensorStore(tmp_path)
    graph = capture(program, (X,), tensors=tensors, verify=False)
    found: list[str] = []

    def visit(call: Call) -> bool:
        found.append(call.refused())
        return bool(found[-1])

    visit_calls(graph, materialise_all(graph, tensors), lambda _: True, visit)
    assert (reason in found[-1]) if reason else not any(found), found
