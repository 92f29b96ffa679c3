"""Runs onnxruntime/cpu as its users do: torch.export, torch.onnx.export, an inference session."""

# pyright: basic
# (torch is typed in parts only)

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from script.parts.tensors import require_known

#: ONNX element types that numpy has no dtype for.
ONNX_ELEMENTS = {
    torch.bfloat16: 16, torch.float8_e4m3fn: 17, torch.float8_e4m3fnuz: 18, torch.float8_e5m2: 19,
    torch.float8_e5m2fnuz: 20,
}  # fmt: skip
ONNX_NAMES = {
    "tensor(bfloat16)": torch.bfloat16, "tensor(float8e4m3fn)": torch.float8_e4m3fn,
    "tensor(float8e4m3fnuz)": torch.float8_e4m3fnuz, "tensor(float8e5m2)": torch.float8_e5m2,
    "tensor(float8e5m2fnuz)": torch.float8_e5m2fnuz,
}  # fmt: skip


def run_onnxruntime(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    _invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs the model with ONNX Runtime's CPU provider; complex outputs are pairs of reals."""
    import onnxruntime

    require_known(options, "opt threads export", "onnxruntime/cpu")
    stage("export")
    with torch.no_grad():
        program = torch.onnx.export(torch.export.export(model, tuple(arguments)), dynamo=True, verbose=False)
    assert program is not None
    proto = program.model_proto.SerializeToString()
    stage("compile")
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = int(options.get("threads", "0"))
    level = onnxruntime.GraphOptimizationLevel
    settings.graph_optimization_level = level.ORT_DISABLE_ALL if options.get("opt") == "off" else level.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(proto, settings, providers=["CPUExecutionProvider"])
    stage("run")
    names = [given.name for given in session.get_inputs()]
    if len(names) != len(arguments):
        raise RuntimeError(f"the ONNX model takes {len(names)} inputs, the program {len(arguments)}")
    feeds = {name: ort_value(tensor) for name, tensor in zip(names, arguments, strict=True)}
    values = session.run_with_ort_values(None, feeds)
    return [from_ort(value, output.type) for value, output in zip(values, session.get_outputs(), strict=True)]


def ort_value(tensor: torch.Tensor) -> Any:
    """Converts a tensor to an ONNX Runtime value."""
    import onnxruntime

    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    tensor = tensor.contiguous()
    if tensor.dtype not in ONNX_ELEMENTS:
        return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy())
    carrier = torch.uint16 if tensor.element_size() == 2 else torch.uint8
    make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
    return make(tensor.view(carrier).numpy(), ONNX_ELEMENTS[tensor.dtype])


def from_ort(value: Any, kind: str) -> torch.Tensor:
    """Converts an ONNX Runtime value to a tensor."""
    if kind not in ONNX_NAMES:
        return torch.from_numpy(np.array(value.numpy(), order="C"))
    raw = bytearray(ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()))
    if not raw:
        return torch.empty(value.shape(), dtype=ONNX_NAMES[kind])
    return torch.frombuffer(raw, dtype=torch.uint8).view(ONNX_NAMES[kind]).reshape(value.shape())
