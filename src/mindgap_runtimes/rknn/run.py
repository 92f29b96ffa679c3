"""Runs a model on RKNN-Toolkit2's simulator as its users do: an ONNX model, a build, the simulator as the runtime."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import onnx
import torch
from rknn.api import RKNN

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh

PROPERTIES: dict[str, str | int] = {}


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs on the simulator of a chip."""
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, opset_version=18, verbose=False).save(f"{folder}/model.onnx")
        rknn = RKNN(verbose=False)
        steps = [rknn.config(**PROPERTIES), rknn.load_onnx(f"{folder}/model.onnx")]
        steps += [rknn.build(do_quantization=False), rknn.init_runtime()]
        found = None if any(steps) else rknn.inference([a.numpy() for a in fresh()], data_format="nchw")
        if found is None:
            raise RuntimeError(f"RKNN-Toolkit2 failed: config, load_onnx, build and init_runtime returned {steps}")
        return [torch.as_tensor(a) for a in found]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a model file on the simulator of a chip."""
    graph = onnx.load("FILE", load_external_data=False).graph
    held = {one.name for one in graph.initializer}
    inputs = [
        (one.name, [size.dim_value or None for size in one.type.tensor_type.shape.dim])
        for one in graph.input
        if one.name not in held
    ]
    feeds = {name: tensor.numpy() for name, tensor in model.matched(inputs, fresh())}
    rknn, sizes = RKNN(verbose=False), [[*array.shape] for array in feeds.values()]
    steps = [rknn.config(**PROPERTIES), rknn.load_onnx("FILE", inputs=[*feeds], input_size_list=sizes)]
    steps += [rknn.build(do_quantization=False), rknn.init_runtime()]
    found = None if any(steps) else rknn.inference([*feeds.values()], data_format="nchw")
    if found is None:
        raise RuntimeError(f"RKNN-Toolkit2 failed: config, load_onnx, build and init_runtime returned {steps}")
    return [torch.as_tensor(array) for array in found]
