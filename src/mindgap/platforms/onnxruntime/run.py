"""Runs a model on ONNX Runtime as its users do: export, then a session of an execution provider."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import onnx
import onnxruntime
import torch

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh

PROPERTIES: dict[str, str] = {}


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs on the CPU provider."""
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def run_unoptimised(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs on the CPU provider, of the model as it was exported."""
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[Any]:
    """Returns the outputs of a model file on the CPU provider; texts, sequences and maps as it gives them."""
    options = onnxruntime.SessionOptions()
    for name, value in PROPERTIES.items():
        options.add_session_config_entry(name, value)
    session = onnxruntime.InferenceSession("FILE", options)
    inputs = [(given.name, given.shape) for given in session.get_inputs()]
    given = model.matched(inputs, fresh())
    if not any(each.type == "tensor(bfloat16)" for each in (*session.get_inputs(), *session.get_outputs())):
        found: Any = session.run(None, {name: tensor.numpy() for name, tensor in given})
        return [torch.as_tensor(each) if hasattr(each, "dtype") and each.dtype != object else each for each in found]
    values = onnxruntime.OrtValue  # numpy has no bfloat16
    feeds = {
        name: values.from_dlpack(tensor)
        if tensor.dtype == torch.bfloat16
        else values.ortvalue_from_numpy(tensor.numpy())
        for name, tensor in given
    }
    found = session.run_with_ort_values(None, feeds)
    return [
        torch.from_dlpack(each._ortvalue) if each.data_type() == "tensor(bfloat16)" else torch.as_tensor(each.numpy())
        for each in found
    ]


def run_file_with_float_activations(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a model file that lets no product quantise its float operand."""
    options = onnxruntime.SessionOptions()
    for name, value in PROPERTIES.items():
        options.add_session_config_entry(name, value)
    loaded = onnx.load("FILE")
    for node in loaded.graph.node:
        kept = [each for each in node.attribute if each.name != "accuracy_level"]
        del node.attribute[:]
        node.attribute.extend(kept)
    session = onnxruntime.InferenceSession(loaded.SerializeToString(), options)
    inputs = [(given.name, given.shape) for given in session.get_inputs()]
    feeds = {name: tensor.numpy() for name, tensor in model.matched(inputs, fresh())}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def run_openvino(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs on the OpenVINO provider."""
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    providers = [("OpenVINOExecutionProvider", PROPERTIES), "CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=providers, enable_fallback=0
    )
    assert len(session.get_providers()) == len(providers), "this onnxruntime has no OpenVINO provider"
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def run_alone(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs on a provider within ONNX Runtime, where the CPU provider may run nothing."""
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    providers = [("CUDAExecutionProvider", PROPERTIES)]
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=providers, enable_fallback=0
    )
    assert session.get_providers()[0] == providers[0][0], "this onnxruntime lacks the provider"
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def run_plugin(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs on a plug-in's provider, where the CPU provider may run nothing."""
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    plugin, name = importlib.import_module("PLUGIN"), "NAME"
    known = [each.ep_name for each in onnxruntime.get_ep_devices()]
    library = getattr(plugin, "get_library_path", None) or plugin.library_path
    onnxruntime.register_execution_provider_library(name, library())
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name not in known]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    named = [each for each in devices if each.ep_name == name] or devices
    options.add_provider_for_devices(named[:1], PROPERTIES)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options, enable_fallback=0)
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
