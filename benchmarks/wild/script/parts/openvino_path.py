"""Runs openvino/cpu as its users do: convert_model of an exported program or ONNX file, compile_model."""

# pyright: basic
# (torch and openvino are typed in parts only)

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from script.parts.tensors import require_known

#: OpenVINO's element types that numpy has no dtype for.
OPENVINO_TYPES = {"bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}


def run_openvino(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    _invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs the model with OpenVINO's CPU plugin. `frontend=onnx`: through an ONNX file."""
    import openvino

    require_known(options, "frontend precision threads", "openvino/cpu")
    names: list[str] = []
    stage("export")
    with torch.no_grad():
        program = torch.export.export(model, tuple(arguments))
        if options.get("frontend", "pytorch") == "onnx":
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "model.onnx")
                onnx_program = torch.onnx.export(program, dynamo=True, verbose=False)
                assert onnx_program is not None
                onnx_program.save(file)
                names = [str(given.name) for given in onnx_program.model.graph.inputs]
                stage("convert")
                converted = openvino.Core().read_model(file)
        else:
            stage("convert")
            converted = openvino.convert_model(program)
    stage("compile")
    settings: dict[str, Any] = {}
    if "threads" in options:
        settings = {"INFERENCE_NUM_THREADS": int(options["threads"]), "NUM_STREAMS": 1}
    if options.get("precision") == "f32":
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    compiled = openvino.Core().compile_model(converted, "CPU", settings)
    stage("run")
    request = compiled.create_infer_request()
    # The request reads their memory, and keeps no reference to it.
    held = [tensor.contiguous() for tensor in arguments]
    for place, port in enumerate(compiled.inputs):
        # OpenVINO leaves out an input of an ONNX model that nothing reads.
        numbers = [names.index(name) for name in port.get_names() if name in names] or [place]
        request.set_tensor(port, openvino_tensor(held[numbers[0]]))
    request.infer()
    return [from_openvino(request.get_output_tensor(number)) for number in range(len(compiled.outputs))]


def openvino_tensor(tensor: torch.Tensor) -> Any:
    """Converts a tensor to an OpenVINO tensor."""
    import openvino

    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    tensor = tensor.contiguous()
    name = next((name for name, dtype in OPENVINO_TYPES.items() if dtype == tensor.dtype), None)
    if name is None:
        return openvino.Tensor(tensor.numpy())
    carrier = torch.uint16 if tensor.element_size() == 2 else torch.uint8
    return openvino.Tensor(
        tensor.view(carrier).numpy(), openvino.Shape(list(tensor.shape)), getattr(openvino.Type, name)
    )


def from_openvino(tensor: Any) -> torch.Tensor:
    """Copies an OpenVINO tensor to a torch tensor."""
    dtype = OPENVINO_TYPES.get(tensor.get_element_type().to_string())
    found = torch.from_numpy(np.array(tensor.data, order="C"))
    return found if dtype is None else found.view(dtype)
