"""Signatures of messages that the runtimes really give: the operator and the reason, and nothing around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from mindgap.platforms.onnx.export import export
from mindgap.platforms.onnxruntime import backend as onnxruntime
from mindgap.platforms.openvino import backend as openvino
from mindgap.run.failure_signature import signature
from mindgap.run.local import failure
from platforms.onnx_graphs import captured, normal

#: What runtimes write around a reason.
BOILERPLATE = (
    "Exception from", "FrontEnd API", "OpConversionFailure", "with a message", "friendly_name", "Check '", "Summary",
    "Conversion is failed", "ONNXRuntimeError", "Non-zero status", "node_", "onnxruntime_src", "SymbolicTensor",
    "Error calling function", "TORCH_LOGS", "num_users",
)  # fmt: skip


@functools.cache
def opened(runtime: str) -> Any:
    if runtime == "openvino":
        return openvino.BACKEND.open({"frontend": "onnx"})
    return onnxruntime.BACKEND.open({})


def said(runtime: str, program: Callable[..., Any], *args: torch.Tensor) -> str:
    """The signature of what stops the program."""
    graph, inputs = captured(program, *args)
    try:
        if runtime == "exporter":
            export(graph, inputs)
        else:
            opened(runtime).load(graph, inputs)(inputs)
    except Exception as error:
        return failure(error)["signature"]
    pytest.fail("it did not stop")


def topk(x: torch.Tensor) -> torch.Tensor:
    return x.topk(1)[0]


def pool(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(x, 2)


def circular(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (1, 1, 1, 1), mode="circular")


def scattered(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return (x * 2).scatter_reduce(0, i, x, "sum")


def byte(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int8)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def half(*shape: int) -> torch.Tensor:
    return normal(*shape, dtype=torch.float16)


#: What the signature must begin with -> the failure, twice, with other shapes where it has any.
FAILURES: dict[str, tuple[str, Callable[..., Any], list[tuple[torch.Tensor, ...]]]] = {
    "TopK: Input rank": ("openvino", topk, [(normal(),)]),
    "AveragePool: Batch size is zero": ("openvino", pool, [(normal(0, 1, 4, 4),), (normal(0, 3, 6, 8),)]),
    "aten.grid_sampler.default: GridSample: GridSample is only supported for 4D": (
        "openvino", F.grid_sample,
        [(normal(1, 1, 3, 3, 3), normal(1, 2, 2, 2, 3)), (normal(2, 3, 5, 4, 3), normal(2, 1, 2, 3, 3))],
    ),
    "IsNaN: The element type of the input tensor must be": ("openvino", torch.isnan, [(byte(2),), (byte(3, 4),)]),
    "SoftmaxCrossEntropyLoss: indices must be of int32 or int64": (
        "openvino", F.cross_entropy, [(normal(2, 3), normal(2, 3).softmax(1)), (normal(4, 5), normal(4, 5).softmax(1))],
    ),
    "aten.pad.default: Pad: Unsupported padding mode: [wrap]": (
        "openvino", circular, [(normal(1, 1, 3, 3),), (normal(2, 3, 5, 4),)],
    ),
    "FAIL: TopK: [ShapeInferenceError] Invalid value for attribute axis": ("onnxruntime", topk, [(normal(),)]),
    "INVALID_GRAPH: This is an invalid model. Type Error: Type 'tensor(int8)' of input parameter of operator (IsNaN)": (
        "onnxruntime", torch.isnan, [(byte(2),), (byte(3, 4),)],
    ),
    "FAIL: Type Error: Type parameter (T) of Optype (Div) bound to different types": (
        "onnxruntime", torch.divide, [(normal(3), zeros(3) + 1), (normal(2, 4), zeros(2, 4) + 1)],
    ),
    "FAIL: ScatterElements: IsAxisInRange(axis, tensor_rank) was false": (
        "onnxruntime", lambda x, i: x.scatter(0, i, 1.0), [(normal(), zeros())],
    ),
    "aten.scatter_reduce.two: RUNTIME_EXCEPTION: ScatterElements: CPU execution provider": (
        "onnxruntime", scattered, [(half(3), zeros(3)), (half(4), zeros(4))],
    ),
    "aten.amax.default: translating it to ONNX failed: ValueError: Required parameter 'dim' is not provided": (
        "exporter", lambda x: x.amax(), [(normal(),)],
    ),
    "aten.diagonal_scatter.default: decomposing it for ONNX failed: AssertionError: aot_autograd expected": (
        "exporter", torch.diagonal_scatter, [(normal(3, 3), normal(3)), (normal(4, 4), normal(4))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", FAILURES)
def test_a_signature_is_the_operator_and_the_reason(reason: str) -> None:
    runtime, program, calls = FAILURES[reason]
    found = {said(runtime, program, *args) for args in calls}
    assert len(found) == 1, "the same failure on other shapes has another signature"
    (one,) = found
    assert one.startswith(reason)
    assert not [words for words in BOILERPLATE if words in one]


def test_reports_of_several_operators_give_each_its_reason() -> None:
    both = said("openvino", lambda x, y: (topk(x), pool(y)), normal(), normal(0, 1, 4, 4))
    assert "TopK: Input rank must be greater than" in both and "AveragePool: Batch size is zero" in both


def test_what_follows_from_another_failure_is_left_out() -> None:
    """Else a graph without the operator that comes after would have another signature, and the culprit be missed."""

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.ops.aten._fft_r2c(x, [2], 1, False)) * y

    args = normal(5, 6, 7), normal(5, 6, 7, 2)
    alone = said("openvino", product, *args)
    assert (
        said("openvino", lambda x, y: product(x, y).sum(), *args) == alone == "Mul: Argument shapes are inconsistent."
    )


def test_a_condition_without_a_reason_stays() -> None:
    message = (
        "Exception from src/inference/src/cpp/core.cpp:105:\n"
        "While validating ONNX node '<Node(Tile): node_tile_3>': Check 'rank > 0' failed at src/core/tile.cpp:7:\n"
    )
    assert signature(message) == "Tile: Check 'rank > <n>' failed"
