"""Runs a model on tinygrad as its users do: an ONNX model in `tinygrad.nn.onnx.OnnxRunner`."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import importlib.util
import os
import platform
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import torch
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the ONNX model."""
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        runner = OnnxRunner(f"{folder}/model.onnx")
    found = runner({n: Tensor(a.numpy()) for n, a in zip(runner.graph_inputs, fresh(), strict=True)})
    return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a model file."""
    runner = OnnxRunner("FILE")
    inputs = [
        (name, [size if isinstance(size, int) else None for size in given.shape])
        for name, given in runner.graph_inputs.items()
    ]
    feeds = model.matched(inputs, fresh())
    found = runner({name: Tensor(tensor.numpy()) for name, tensor in feeds})
    return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]


def run_webgpu(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the ONNX model, with the library of Dawn that dawn-python has."""
    place = importlib.util.find_spec("pydawn").submodule_search_locations[0]
    os.environ["WEBGPU_PATH"] = f"{place}/lib/libwebgpu_dawn_{platform.machine()}.so"
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        runner = OnnxRunner(f"{folder}/model.onnx")
    found = runner({n: Tensor(a.numpy()) for n, a in zip(runner.graph_inputs, fresh(), strict=True)})
    return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]
