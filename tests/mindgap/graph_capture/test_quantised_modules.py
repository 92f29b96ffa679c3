"""Quantised modules: unpacked into integers, compared operator by operator with PyTorch's, refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.ao.nn import quantized
from torch.ao.quantization import (
    convert,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
    get_default_qconfig,
    get_default_qconfig_mapping,
    prepare,
    quantize_dynamic,
)
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture, quantised_operators as operators
from mindgap.graph_capture.errors import QuantisedPart
from mindgap.graph_capture.quantised_modules import QuantisedCheck, _Definitions, unpack_quantised, unpacked

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def engine() -> Any:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "x86" if "x86" in torch.backends.quantized.supported_engines else before
    torch.manual_seed(0)
    yield
    torch.backends.quantized.engine = before


class Picture(nn.Module):
    """Convolutions with a normalisation, groups and a residual sum, pooling, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        z = torch.nn.functional.max_pool2d(torch.relu(self.second(y) + y), 2)
        return self.last(torch.flatten(z, 1))


class Stubs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.sum = nn.Linear(16, 16), nn.Linear(16, 4), quantized.FloatFunctional()
        self.quant, self.dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.quant(x)
        return self.dequant(self.last(self.sum.add(x, self.first(x))))


def dynamic() -> tuple[nn.Module, torch.Tensor]:
    layers = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)).eval()
    return quantize_dynamic(layers, {nn.Linear}, dtype=torch.qint8), torch.randn(5, 64)


def fx() -> tuple[nn.Module, torch.Tensor]:
    x = torch.randn(4, 3, 8, 8)
    prepared = prepare_fx(Picture().eval(), get_default_qconfig_mapping("x86"), (x,))
    prepared(x)
    return convert_fx(prepared), x


def eager() -> tuple[nn.Module, torch.Tensor]:
    module, x = Stubs().eval(), torch.randn(6, 16)
    module.qconfig = get_default_qconfig("x86")
    prepared = prepare(module)
    prepared(x)
    return convert(prepared), x


@pytest.mark.parametrize(("make", "exact"), [(dynamic, False), (fx, True), (eager, True)])
def test_the_unpacked_program_gives_what_the_quantised_one_gives(make: Any, exact: bool) -> None:
    module, x = make()
    found, differs = unpacked(module, (x,), {})
    assert differs == ("" if exact else "quantized.linear_dynamic in the rounding of float32")
    expected, result = module(x), found(x)
    assert torch.equal(result, expected) if exact else torch.allclose(result, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("engine", ["x86", "onednn"])
@pytest.mark.parametrize(("kind", "named"), [
    (nn.LSTM, {}), (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}), (nn.GRU, {}),
    (nn.GRU, {"num_layers": 2, "bidirectional": True}), (nn.LSTMCell, {}), (nn.GRUCell, {}), (nn.RNNCell, {}),
    (nn.RNNCell, {"nonlinearity": "relu"}),
])  # fmt: skip
def test_recurrent_layers_give_what_pytorchs_give(kind: Any, named: dict[str, Any], engine: str) -> None:
    if engine not in torch.backends.quantized.supported_engines:
        pytest.skip(f"this build of PyTorch has no {engine}")
    torch.backends.quantized.engine = engine
    module = quantize_dynamic(nn.Sequential(kind(24, 40, **named)).eval(), {kind}, dtype=torch.qint8)
    x = torch.randn(7, 24) if kind.__name__.endswith("Cell") else torch.randn(7, 3, 24)
    found, differs = unpacked(module, (x,), {})
    # The gates of LSTM and RNN are bit for bit PyTorch's where the products are.
    products = "quantized.linear_dynamic in the rounding of float32"
    assert differs in ("", products) or kind in (nn.GRU, nn.GRUCell)
    torch.testing.assert_close(found(x), module(x), rtol=1e-6, atol=1e-6)


def test_a_layer_quantises_all_time_steps_by_one_range() -> None:
    module = quantize_dynamic(nn.Sequential(nn.LSTM(24, 40)).eval(), {nn.LSTM}, dtype=torch.qint8)
    x = torch.randn(7, 3, 24) * torch.arange(1.0, 8.0).reshape(7, 1, 1)
    found, _ = unpacked(module, (x,), {})
    torch.testing.assert_close(found(x), module(x), rtol=1e-6, atol=1e-6)
    first = found(x[:1])[0]
    assert not torch.allclose(first, found(x)[0][:1], rtol=1e-4, atol=1e-4)  # alone, another range


def embedding(module: nn.Module, config: Any) -> nn.Module:
    module.qconfig = config
    return convert(prepare(nn.Sequential(module).eval()))


class Bags(nn.Module):
    def __init__(self, bag: nn.Module) -> None:
        super().__init__()
        self.bag = bag

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor, factors: torch.Tensor) -> Any:
        return self.bag(indices, offsets, factors), self.bag(indices, offsets), self.bag(indices.reshape(2, 3))


@pytest.mark.parametrize("bits", [8, 4])
def test_embeddings_give_what_pytorchs_give(bits: int) -> None:
    config = float_qparams_weight_only_qconfig if bits == 8 else float_qparams_weight_only_qconfig_4bit
    bags = Bags(embedding(nn.EmbeddingBag(20, 15, mode="sum"), config)[0])  # type: ignore[index] # a Sequential
    given = torch.tensor([1, 2, 5, 19, 0, 3]), torch.tensor([0, 2, 2, 5]), torch.rand(6)
    found, differs = unpacked(bags, given, {})
    assert "steps" not in differs
    torch.testing.assert_close(found(*given), bags(*given), rtol=1e-6, atol=1e-6)
    held = found.inner.bag._packed_params._packed_weight
    real = bags.bag.weight().dequantize()
    assert held.weight.dtype == torch.uint8 and int(held.weight.max()) == 2**bits - 1
    torch.testing.assert_close(held.rows(torch.arange(20)), real, rtol=1e-2, atol=1e-3)  # float16 scales of 4 bits
    if bits == 8:
        rows = embedding(nn.Embedding(20, 15), config)
        indices = given[0].reshape(2, 3)
        torch.testing.assert_close(unpacked(rows, (indices,), {})[0](indices), rows(indices), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("make", "weight"), [(dynamic, "0"), (fx, "first"), (eager, "first")])
def test_the_graph_holds_integers(make: Any, weight: str, store: TensorStore) -> None:
    module, x = make()
    graph = capture(module, (x,), tensors=store)
    dtypes = {label: given.spec.dtype for label, given in zip(graph.labels.inputs, graph.inputs, strict=True)}
    assert (
        next(dtype for label, dtype in dtypes.items() if label.startswith(weight) and label.endswith("weight"))
        == "int8"
    )
    assert not any(node.op.startswith("quantized") for node in graph.nodes)


def test_an_operator_that_differs_by_rounding_is_told(store: TensorStore) -> None:
    module, x = dynamic()
    with pytest.warns(QuantisedPart, match=r"linear_dynamic in the rounding of float32"):
        capture(module, (x,), tensors=store)


def test_a_definition_that_differs_by_more_than_a_step_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = operators._DEFINED["quantized.conv2d"]

    def wrong(*args: Any) -> operators.Quantised:
        found = right(*args)
        return found.like(found.values ^ 2)

    monkeypatch.setitem(operators._DEFINED, "quantized.conv2d", wrong)
    module, x = fx()
    with pytest.raises(CaptureError, match=r"quantized.conv2d: the definition .* differs .* by \d+ steps"):
        unpacked(module, (x,), {})


@pytest.mark.parametrize("scale", [0.0, 1e-42, 1e-6, 1.0, 1e30])
@pytest.mark.parametrize("shift", [-3.0, 0.0, 0.4, 3.0])
@pytest.mark.parametrize("reduced", [False, True])
def test_scale_and_zero_point_of_a_dynamic_operand_are_pytorchs(scale: float, shift: float, reduced: bool) -> None:
    x = (torch.randn(50) + shift) * scale
    expected = torch._choose_qparams_per_tensor(x, reduced)
    found = operators.chosen_parameters(x, 127 if reduced else 255)
    assert (float(found[0]), int(found[1])) == expected


OPERANDS = (torch.randn(2, 6, 9, 9) * 2, torch.randn(2, 6, 9, 9) * 2)
CALLS: dict[str, Any] = {
    "add_relu": lambda q, x, y: q.add_relu(x, y, 0.07, 100),
    "mul": lambda q, x, y: q.mul(x, y, 0.1, 100),
    "cat": lambda q, x, y: q.cat([x, y], 1, 0.07, 100),
    "hardswish": lambda q, x, y: q.hardswish(x, 0.04, 30),
    "leaky_relu": lambda q, x, y: q.leaky_relu(x, 0.1, False, 0.04, 30),
    "leaky_relu, as convert_fx calls it": lambda q, x, y: q.leaky_relu(
        x, negative_slope=0.1, inplace=False, output_scale=0.04, output_zero_point=30
    ),
    "elu": lambda q, x, y: q.elu(x, 0.04, 30, 1.0),
    "layer_norm": lambda q, x, y: q.layer_norm(x, [9], torch.ones(9), torch.zeros(9), 1e-5, 0.04, 117),
    "relu6": lambda q, x, y: torch.nn.functional.relu6(x),
    "hardtanh": lambda q, x, y: torch.nn.functional.hardtanh(x),
    "sigmoid": lambda q, x, y: torch.sigmoid(x),
    "tanh": lambda q, x, y: torch.tanh(x),
    "avg_pool2d": lambda q, x, y: torch.nn.functional.avg_pool2d(x, 3, 2, 1),
    "mean": lambda q, x, y: x.mean([2, 3]),
    "reshape": lambda q, x, y: x.reshape(2, -1)[:, 3:50],
}


class _Quantized:
    """Calls definitions under the names of `torch.ops.quantized`."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **named: operators.call(getattr(torch.ops.quantized, name), args, named)


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_gives_pytorchs_integers_up_to_ties(name: str) -> None:
    plain = [operators.quantised(x, s, z) for x, s, z in zip(OPERANDS, (0.03, 0.05), (117, 90), strict=True)]
    packed = [
        torch.quantize_per_tensor(x, s, z, torch.quint8)
        for x, s, z in zip(OPERANDS, (0.03, 0.05), (117, 90), strict=True)
    ]
    found, expected = CALLS[name](_Quantized(), *plain), CALLS[name](torch.ops.quantized, *packed)
    apart = (found.values.to(torch.int32) - expected.int_repr().to(torch.int32)).abs()
    assert int(apart.max()) <= 1 and (apart > 0).float().mean() < 0.25
    assert (found.scale, found.zero) == (pytest.approx(expected.q_scale()), expected.q_zero_point())


@pytest.mark.parametrize(("channels", "groups", "dtypes"), [
    (8, 1, ["float32"]), (80, 1, ["float32"] * 2), (128, 2, ["float64"]),
])  # fmt: skip
def test_a_convolution_of_many_channels_is_exact(
    channels: int, groups: int, dtypes: list[str], store: TensorStore
) -> None:
    class One(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(channels, 4, 3, groups=groups)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.hardswish(self.conv(x))

    x = torch.randn(1, channels, 6, 6)
    prepared = prepare_fx(One().eval(), get_default_qconfig_mapping("x86"), (x,))
    prepared(x)
    module = convert_fx(prepared)
    assert torch.equal(unpacked(module, (x,), {})[0](x), module(x))
    graph = capture(module, (x,), tensors=store)
    results = [node.outputs[0].dtype for node in graph.nodes if node.op.startswith("aten.conv2d")]
    assert results == dtypes


def refused(kind: str) -> tuple[Any, torch.Tensor]:
    if kind == "lstm":
        return quantize_dynamic(nn.Sequential(nn.LSTM(8, 8)), {nn.LSTM}, dtype=torch.float16), torch.randn(3, 2, 8)
    if kind == "embedding":
        return embedding(nn.Embedding(20, 16), float_qparams_weight_only_qconfig_4bit), torch.tensor([[1, 19], [0, 3]])
    if kind == "packed":
        sequence = torch.nn.utils.rnn.pack_sequence([torch.randn(3, 8), torch.randn(2, 8)])
        return quantize_dynamic(nn.Sequential(nn.GRU(8, 8)), {nn.GRU}, dtype=torch.qint8), sequence
    half = quantize_dynamic(nn.Sequential(nn.Linear(8, 8)), {nn.Linear}, dtype=torch.float16)
    return (half if kind == "float16" else lambda x: half(x)), torch.randn(3, 8)


@pytest.mark.parametrize(("kind", "words"), [
    ("lstm", r"0\..* \(PackedParameter\): weights of float16"),
    ("embedding", r"0 \(Embedding\): its weight has 4 bits, and PyTorch's module reads 8"),
    ("packed", "a packed sequence has no definition"),
    ("float16", r"0 \(Linear\): a weight of torch.float32"),
    ("function", r"half.0 is a quantised module \(Linear\) in a function; return the module itself"),
])  # fmt: skip
def test_what_has_no_definition_is_refused_by_name(kind: str, words: str, store: TensorStore) -> None:
    program, x = refused(kind)
    with pytest.raises(CaptureError, match=words):
        capture(program, (x,), tensors=store)


def test_a_backward_pass_through_quantised_modules_is_refused(store: TensorStore) -> None:
    module, x = dynamic()
    with pytest.raises(CaptureError, match="quantised modules, which have no gradient"):
        capture(module, (x,), tensors=store, backward=True)


@pytest.mark.parametrize("make", [dynamic, fx])
def test_the_own_path_has_the_packed_program(make: Any) -> None:
    """An exporter that refuses packed weights fails; TorchScript takes them."""
    from mindgap.own_path.worker import Programs
    from mindgap.sources import Built

    module, x = make()
    programs = Programs(Built(module, (x,)))

    def run(body: str) -> tuple[dict[str, Any], Any]:
        runner = {"run": f"def run(model, fresh):\n    return {body}", "imports": [], "properties": {}}
        return programs.run({"source": "", "runner": runner, "again_s": 0.0, "first": ""})

    header, _ = run("torch.export.export(model, fresh()).module()(*fresh())")
    assert not header["failure"]["ours"] and header["failure"]["step"] == "torch.export.export"
    header, (outputs, eager) = run("torch.jit.trace(model, fresh())(*fresh())")
    assert header["failure"] is None and np.array_equal(outputs, eager)
    assert np.array_equal(eager, module(x).numpy())


def test_quantised_outputs_are_compared_as_integers() -> None:
    from mindgap.own_path.program_run import FlatProgram, run_eagerly

    x = torch.linspace(-1, 1, 5)
    found = run_eagerly(FlatProgram(lambda x: torch.quantize_per_tensor(x, 0.5, 3, torch.quint8), (x,), {}))
    assert found[0].dtype == np.uint8 and found[0].tolist() == [1, 2, 3, 4, 5]


def test_the_check_compares_every_operator() -> None:
    module, x = fx()
    found, packed = unpack_quantised(module)
    check = QuantisedCheck(packed)
    with torch.no_grad(), _Definitions(check):
        found.inner(x)
    assert len(packed) == 3 and check.exact == 4  # two convolutions, a sum and a linear layer
