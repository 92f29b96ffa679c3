"""Runs a model on OpenVINO's CPU plugin as its users do, by the PyTorch front end or by an ONNX model."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import openvino
import torch

from mindgap.platforms.openvino.backend import properties

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh

PROPERTIES: dict[str, str | int] = properties({})


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the converted program."""
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    given = [a.numpy() for a in fresh()]
    found = compiled.infer_new_request(given)
    narrow = [each.element_type == openvino.Type.bf16 for each in compiled.outputs]  # numpy has float16 for its bits
    tensors = [torch.as_tensor(np.array(array)) for array in found.values()]
    return [tensor.view(torch.bfloat16) if bits else tensor for bits, tensor in zip(narrow, tensors, strict=True)]


def run_onnx(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the ONNX model."""
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
    given = [a.numpy() for a in fresh()]
    found = compiled.infer_new_request(given)
    narrow = [each.element_type == openvino.Type.bf16 for each in compiled.outputs]  # numpy has float16 for its bits
    tensors = [torch.as_tensor(np.array(array)) for array in found.values()]
    return [tensor.view(torch.bfloat16) if bits else tensor for bits, tensor in zip(narrow, tensors, strict=True)]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[Any]:
    """Returns the outputs of a model file; texts as it gives them."""
    compiled = openvino.compile_model(openvino.Core().read_model("FILE"), "CPU", PROPERTIES)
    # An input has the names of what is computed of it without a change, too.
    inputs = [
        (min(each.get_names(), key=lambda name: name != own, default=""), each.partial_shape)
        for each in compiled.inputs
        for own in [each.node.get_friendly_name()]
    ]
    narrow = openvino.Type.bf16  # numpy has none: OpenVINO gives its bits as float16
    given = [
        openvino.Tensor(tensor.view(torch.uint16).numpy(), openvino.Shape(tensor.shape), narrow)
        if tensor.dtype == torch.bfloat16 else tensor.numpy()
        for _, tensor in model.matched(inputs, fresh())
    ]  # fmt: skip
    found = compiled(given)
    return [
        torch.as_tensor(np.array(array)).view(torch.bfloat16) if each.element_type == narrow
        else torch.as_tensor(np.array(array)) if array.dtype.kind not in "OSU" else array
        for each, array in zip(compiled.outputs, found.values(), strict=True)
    ]  # fmt: skip
