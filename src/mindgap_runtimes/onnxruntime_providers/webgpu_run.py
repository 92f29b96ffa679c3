"""Runs a model on ONNX Runtime's WebGPU provider as its users do, where the CPU provider may run nothing."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import ctypes
import ctypes.util
import os
from typing import TYPE_CHECKING

import onnxruntime
import torch

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh

PROPERTIES: dict[str, str] = {}


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs. Vulkan's loader is the system's, or lies beside the driver."""
    driver = os.environ.get("VK_DRIVER_FILES", "")
    ctypes.CDLL(ctypes.util.find_library("vulkan") or f"{os.path.dirname(driver)}/libvulkan.so.1", ctypes.RTLD_GLOBAL)
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, enable_fallback=0,
        providers=[("WebGpuExecutionProvider", PROPERTIES)],
    )  # fmt: skip
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a model file, where the CPU provider may run nothing."""
    driver = os.environ.get("VK_DRIVER_FILES", "")
    ctypes.CDLL(ctypes.util.find_library("vulkan") or f"{os.path.dirname(driver)}/libvulkan.so.1", ctypes.RTLD_GLOBAL)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(
        "FILE", options, enable_fallback=0, providers=[("WebGpuExecutionProvider", PROPERTIES)]
    )
    inputs = [(given.name, given.shape) for given in session.get_inputs()]
    feeds = {name: tensor.numpy() for name, tensor in model.matched(inputs, fresh())}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
