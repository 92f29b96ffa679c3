"""Runs a model in ONNX's reference evaluator as its users do: export, check, evaluate."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportArgumentType=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx.reference
import onnx.reference.op_run
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
    return [torch.as_tensor(np.array(array)) for array in evaluator.run(None, feeds)]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[Any]:
    """Returns the outputs of a model file; texts and sequences as it gives them. PyTorch takes no reversed views."""
    file = onnx.load("FILE")

    def zip_map(self: Any, table: Any, classlabels_int64s: Any = None, classlabels_strings: Any = None) -> Any:
        """What the evaluator lacks: a map from label to value for each row."""
        labels = classlabels_int64s or classlabels_strings
        return ([dict(zip(labels, row, strict=True)) for row in table.reshape(-1, len(labels)).tolist()],)

    given = {"op_domain": "ai.onnx.ml", "_run": zip_map}
    added = [type("ZipMap", (onnx.reference.op_run.OpRun,), given)]
    try:
        evaluator = onnx.reference.ReferenceEvaluator(file, new_ops=added)
    except RuntimeError:
        # It lacks some older versions of operators, such as DequantizeLinear 13.
        newer = onnx.version_converter.convert_version(file, 21)
        evaluator = onnx.reference.ReferenceEvaluator(newer, new_ops=added)
    held = {one.name for one in evaluator.proto_.graph.initializer}
    inputs = [
        (one.name, [size.dim_value if size.HasField("dim_value") else None for size in one.type.tensor_type.shape.dim])
        for one in evaluator.proto_.graph.input
        if one.name not in held
    ]
    feeds = {name: tensor.numpy() for name, tensor in model.matched(inputs, fresh())}
    return [
        torch.as_tensor(each.copy())
        if isinstance(each, np.generic | np.ndarray) and each.dtype.kind not in "OSU"
        else each
        for each in evaluator.run(None, feeds)
    ]
