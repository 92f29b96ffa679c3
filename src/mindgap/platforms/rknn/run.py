"""Runs a model on RKNN-Toolkit2's simulator as its users do: an ONNX model, a build, the simulator as the runtime."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

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
        rknn.config(**PROPERTIES)
        rknn.load_onnx(f"{folder}/model.onnx")
        rknn.build(do_quantization=False)
        rknn.init_runtime()
        return [torch.as_tensor(a) for a in rknn.inference([a.numpy() for a in fresh()], data_format="nchw")]
