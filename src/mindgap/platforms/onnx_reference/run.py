"""Runs a model in ONNX's reference evaluator as its users do: export, check, evaluate."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportArgumentType=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx.reference
import onnx.version_converter
import torch

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the ONNX model."""
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    onnx.checker.check_model(program.model_proto, full_check=True)
    evaluator = onnx.reference.ReferenceEvaluator(program.model_proto)
    feeds = {name: tensor.numpy() for name, tensor in zip(evaluator.input_names, fresh(), strict=True)}
    return [torch.as_tensor(np.asarray(array)) for array in evaluator.run(None, feeds)]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a model file."""
    file = onnx.load("FILE")
    try:
        evaluator = onnx.reference.ReferenceEvaluator(file)
    except RuntimeError:
        # It lacks some older versions of operators, such as DequantizeLinear 13.
        evaluator = onnx.reference.ReferenceEvaluator(onnx.version_converter.convert_version(file, 21))
    held = {one.name for one in evaluator.proto_.graph.initializer}
    inputs = [
        (one.name, [size.dim_value if size.HasField("dim_value") else None for size in one.type.tensor_type.shape.dim])
        for one in evaluator.proto_.graph.input
        if one.name not in held
    ]
    feeds = {name: tensor.numpy() for name, tensor in model.matched(inputs, fresh())}
    return [torch.as_tensor(np.asarray(array)) for array in evaluator.run(None, feeds)]
