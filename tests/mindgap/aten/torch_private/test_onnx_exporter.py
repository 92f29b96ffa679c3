"""Smoke tests of the ONNX exporter's private parts."""

from __future__ import annotations

import onnx_ir
import pytest
import torch
import torch.fx

from mindgap.aten.torch_private import onnx_exporter
from mindgap.aten.torch_private.fake_tensors import FakeTensorMode

aten = torch.ops.aten


def graph_of(target: object, *values: torch.Tensor) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(value) for value in values]
        positions = [graph.placeholder(f"x{number}") for number in range(len(values))]
        for position, fake in zip(positions, fakes, strict=True):
            position.meta["val"] = fake
        call = graph.call_function(target, tuple(positions))  # type: ignore[arg-type]
        call.meta["val"] = target(*fakes)  # type: ignore[operator]
    return graph


def empty_model() -> onnx_ir.Model:
    return onnx_ir.Model(onnx_ir.Graph([], [], nodes=[], name="main_graph"), ir_version=10)


def test_a_graph_is_translated() -> None:
    registry = onnx_exporter.translation_registry(20)
    assert registry.is_registered(aten.tanh.default)
    model = empty_model()
    values = onnx_exporter.translate(graph_of(aten.tanh.default, torch.ones(2)), model, registry)
    onnx_exporter.add_opset_imports(model)
    assert [node.op_type for node in model.graph] == ["Tanh"]
    assert values["x0"] is model.graph.inputs[0] or values["x0"].name == "x0"
    assert model.opset_imports


def test_what_has_no_translation_is_a_conversion_error() -> None:
    registry = onnx_exporter.translation_registry(20)
    graph = graph_of(aten.digamma_.default, torch.ones(2))
    with pytest.raises(onnx_exporter.ConversionError):
        onnx_exporter.translate(graph, empty_model(), registry)


def test_decompositions_and_constants() -> None:
    table = onnx_exporter.decomposition_table(onnx_exporter.translation_registry(20))
    assert aten.tanh_backward.default in table
    assert onnx_exporter.TorchTensor(torch.ones(2), "c").numpy().tolist() == [1, 1]


def test_operands_of_unlike_dtypes_are_cast() -> None:
    graph = graph_of(aten.add.Tensor, torch.ones(2), torch.ones(2, dtype=torch.float64))
    fakes = [node.meta["val"] for node in graph.nodes if node.op == "placeholder"]
    graph.output(None)
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    with FakeTensorMode(allow_non_fake_inputs=True):
        onnx_exporter.TypePromoter(module, onnx_exporter.TypePromotionTable()).run(*fakes)
    assert sum(node.op == "call_function" for node in graph.nodes) == 2
