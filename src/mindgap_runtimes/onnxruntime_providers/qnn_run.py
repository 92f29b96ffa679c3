"""Runs a model on ONNX Runtime's QNN provider as its users do: export, registration of the plug-in, a session."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

from typing import TYPE_CHECKING

import onnxruntime
import onnxruntime_qnn
import torch

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh

PROPERTIES: dict[str, str] = {}


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs on Qualcomm's simulator of its NPU, where the CPU provider may run nothing."""
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    if not any(each.ep_name == onnxruntime_qnn.EP_NAME for each in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **PROPERTIES})
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a model file on the simulator of the NPU, where the CPU provider may run nothing."""
    if not any(each.ep_name == onnxruntime_qnn.EP_NAME for each in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME]
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **PROPERTIES})
    session = onnxruntime.InferenceSession("FILE", options)
    inputs = [(given.name, given.shape) for given in session.get_inputs()]
    feeds = {name: tensor.numpy() for name, tensor in model.matched(inputs, fresh())}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
