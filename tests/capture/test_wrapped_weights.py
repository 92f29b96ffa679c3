"""Weights that are tensor subclasses of plain tensors, as torchao's: taken apart into these tensors."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
from torch import nn

from mindgap.graph.tensors import TensorStore
from mindgap.models.capture import capture
from mindgap.models.capture.wrapped_weights import with_plain_weights, wrapped_weights

X = torch.randn(5, 16, generator=torch.Generator().manual_seed(0))


class Rows(torch.Tensor):
    """Integers of 8 bits with a scale for each row."""

    @staticmethod
    def __new__(cls: Any, integers: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, integers.shape, dtype=torch.float32)

    def __init__(self, integers: torch.Tensor, scale: torch.Tensor) -> None:
        self.integers, self.scale = integers, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["integers", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], context: None, size: Any, stride: Any) -> Any:
        return Rows(inner["integers"], inner["scale"])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            x, weight, bias = args
            return torch._int_mm(x.to(torch.int8), weight.integers.t()) * weight.scale + bias
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.clone.default):
            return Rows(args[0].integers, args[0].scale)
        raise NotImplementedError(str(func))


def layer() -> nn.Module:
    module = nn.Sequential(nn.Linear(16, 8))
    integers = torch.arange(128).reshape(8, 16).sub(64).to(torch.int8)
    module[0].weight = nn.Parameter(Rows(integers, torch.linspace(0.01, 0.02, 8)), requires_grad=False)
    return module


def test_the_graph_holds_the_plain_tensors(store: TensorStore) -> None:
    module, x = layer(), (X * 10).round()
    graph = capture(module, (x,), tensors=store)
    assert {(given.spec.dtype, given.spec.shape) for given in graph.inputs} == {
        ("float32", (5, 16)), ("float32", (8,)), ("int8", (8, 16)),
    }  # fmt: skip
    # The product of integers is one that every platform has.
    assert [node.op for node in graph.nodes if "mm" in node.op] == ["aten.mm.default"]
    assert torch.equal(with_plain_weights(module)(x), module(x)) and isinstance(module[0].weight, Rows)


def test_plain_weights_are_left_alone() -> None:
    assert wrapped_weights(nn.Linear(2, 2)) == [] and wrapped_weights(lambda x: x) == []


@pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")
@pytest.mark.parametrize("name", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"])
def test_modules_of_torchao_are_captured(name: str, store: TensorStore) -> None:
    from torchao import quantization

    module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    quantization.quantize_(module, getattr(quantization, name)())
    graph = capture(module, (X,), tensors=store)
    assert [given.spec.dtype for given in graph.inputs].count("int8") == 2
