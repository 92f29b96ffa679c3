"""Weights that are tensor subclasses of plain tensors, as torchao's: taken apart into these tensors."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
from torch import nn

from mindgap import Session
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture
from mindgap.graph_capture.wrapped_weights import with_plain_weights, wrapped_weights

X = torch.randn(5, 16, generator=torch.Generator().manual_seed(0))
WIDE = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))


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


needs_torchao = pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")
#: Configurations of torchao by name, with their arguments and the dtype of the integers in the graph.
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "int8 weights": ("Int8WeightOnlyConfig", {}, "int8"),
    "int8 dynamic": ("Int8DynamicActivationInt8WeightConfig", {}, "int8"),
    "float8 weights": ("Float8WeightOnlyConfig", {}, "float8_e4m3fn"),
    "int4 weights": ("IntxWeightOnlyConfig", {"weight_dtype": torch.int4}, "int8"),
    "int2 weights": ("IntxWeightOnlyConfig", {"weight_dtype": torch.int2}, "int8"),
    "int4 dynamic": ("Int8DynamicActivationIntxWeightConfig", {"weight_dtype": torch.int4}, "int8"),
}


def quantised(name: str) -> nn.Module:
    from torchao import quantization

    called, options, _ = CONFIGURATIONS[name]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        module = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)).eval()
    quantization.quantize_(module, getattr(quantization, called)(**options))
    return module


@needs_torchao
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_modules_of_torchao_are_captured(name: str, store: TensorStore) -> None:
    module = quantised(name)
    graph = capture(module, (WIDE,), tensors=store)
    held = [given.spec.dtype for given in graph.inputs if given.role == "parameter"]
    assert held.count(CONFIGURATIONS[name][2]) >= 2
    assert torch.equal(with_plain_weights(module)(WIDE), module(WIDE))


@needs_torchao
@pytest.mark.nightly
def test_modules_of_torchao_have_a_verdict() -> None:
    with Session() as session:
        for name in CONFIGURATIONS:
            rows = session.diff(
                quantised(name), (WIDE,), platforms=["onnxruntime/cpu", "cpu/jit"], own_path=False, name=name
            ).rows
            assert {str(row.platform): row.verdict for row in rows} in (
                {"onnxruntime/cpu": "rounding", "cpu/jit": "identical"},
                {"onnxruntime/cpu": "identical", "cpu/jit": "identical"},
            ), name


class GGUFParameter(nn.Parameter):
    """As diffusers', whose class is known by this name."""

    def __new__(cls, data: torch.Tensor, quant_type: int) -> Any:
        self = torch.Tensor._make_subclass(cls, data, False)
        self.quant_type = quant_type
        return self

    def as_tensor(self) -> torch.Tensor:
        return torch.Tensor._make_subclass(torch.Tensor, self, False)


class BlockLinear(nn.Linear):
    """Computes in float32 on what its weight is read as."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight.float(), self.bias)


#: Two rows of a block each: scales 0.5 and 2, a minimum of 1 where there is one.
_SCALES = torch.tensor([[0.5], [2.0]], dtype=torch.float16)
_HALVES = torch.arange(16, dtype=torch.uint8)


@pytest.mark.parametrize(("kind", "stored", "integers", "minimum"), [
    # Low halves are the weights 0 … 15, high halves 16 … 31.
    (2, _HALVES | (15 - _HALVES) << 4, [*range(-8, 8), *range(7, -9, -1)], 0),
    (3, _HALVES | (15 - _HALVES) << 4, [*range(16), *range(15, -1, -1)], 1),
    (8, torch.arange(-16, 16, dtype=torch.int8).view(torch.uint8), range(-16, 16), 0),
])  # fmt: skip
def test_blocks_of_gguf_become_integers_and_scales(
    kind: int, stored: torch.Tensor, integers: Any, minimum: int, store: TensorStore
) -> None:
    heads = [_SCALES, torch.full_like(_SCALES, minimum)] if kind == 3 else [_SCALES]
    data = torch.cat([*(head.view(torch.uint8) for head in heads), stored.expand(2, -1)], -1)
    module = BlockLinear(32, 2)
    module.weight = GGUFParameter(data, kind)
    weight = _SCALES.float() * torch.tensor(list(integers)) + minimum
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(2))
    expected = nn.functional.linear(x, weight, module.bias)
    assert torch.equal(with_plain_weights(module)(x), expected)
    graph = capture(module, (x,), tensors=store)
    assert ("int8", (2, 1, 32)) in {(given.spec.dtype, given.spec.shape) for given in graph.inputs}
    assert isinstance(module.weight, GGUFParameter)


def test_blocks_without_a_definition_are_refused_by_name(store: TensorStore) -> None:
    module = BlockLinear(256, 2)
    module.weight = GGUFParameter(torch.zeros(2, 210, dtype=torch.uint8), 14)
    with pytest.raises(CaptureError, match=r"BlockLinear\.weight is a GGUF weight of type 14, .* Q8_0 have"):
        capture(module, (torch.zeros(1, 256),), tensors=store)


@pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="gguf is not installed")
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_layers_of_diffusers_read_the_same_weights(kind: str) -> None:
    import gguf
    from diffusers.quantizers.gguf.utils import GGUFLinear, GGUFParameter

    kind_ = gguf.GGMLQuantizationType[kind]
    values = torch.randn(8, 64, generator=torch.Generator().manual_seed(3))
    module = GGUFLinear(64, 8, bias=True, compute_dtype=torch.float32)
    module.weight = GGUFParameter(torch.from_numpy(gguf.quantize(values.numpy(), kind_)), quant_type=kind_)
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(4))
    assert torch.equal(with_plain_weights(module)(x), module(x))
