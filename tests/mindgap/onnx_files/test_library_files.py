"""Files that kept libraries write: the exporter of PyTorch, the quantisers of ONNX Runtime, litert-torch."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer

from mindgap.onnx_files.file import load_model
from mindgap.onnx_files.model_proto import op_of
from mindgap.platforms.environments import made_environment
from mindgap.sources import open_source
from onnx_files.test_file import built

#: Seconds for litert-torch, which imports two frameworks.
CONVERSION_S = 240


class Net(torch.nn.Module):
    """A convolution with statistics, attention over its rows, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.gelu(self.norm(self.features(x))).mean(3).transpose(1, 2)
        y, _ = self.attention(y, y, y, need_weights=False)
        return self.head(y).softmax(-1), y.argmax(-1)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def exported(model: torch.nn.Module, path: Path, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (torch.zeros(2, 3, 8, 8),), str(path), input_names=["x"], verbose=False, **options)
    return path


@pytest.fixture(scope="module")
def traced(net: Net, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "net.onnx"
    return exported(net, path, dynamo=False, dynamic_axes={"x": {0: "batch"}})


def both(source: str) -> tuple[list[Any], list[Any]]:
    """The outputs of the translation, and of ONNX Runtime's session of the file without optimisations."""
    one = built(source)
    with torch.no_grad():
        ours = [each.numpy() for each in one.program(*one.args).values()]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(source.partition("?")[0], options)
    feeds = {name: each.numpy() for name, each in zip(one.program.argument_names, one.args, strict=True)}
    return ours, session.run(None, feeds)


def assert_agree(source: str, off: float = 1e-5) -> None:
    """Compares the outputs. `off`: how far floats may be apart."""
    ours, theirs = both(source)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, 0, off if a.dtype.kind == "f" else 0)


def test_a_traced_export_is_translated_for_each_batch(traced: Path) -> None:
    assert_agree(f"{traced}?batch=1")
    assert_agree(f"{traced}?batch=3")


@pytest.mark.nightly
@pytest.mark.parametrize("options", [
    {}, {"dynamic_shapes": {"x": {0: torch.export.Dim("batch"), 2: torch.export.Dim("rows", min=2)}}},
    {"external_data": True}, {"external_data": False, "opset_version": 20},
], ids=["plain", "dynamic", "external", "inside"])  # fmt: skip
def test_an_export_is_translated(net: Net, tmp_path: Path, options: dict[str, Any]) -> None:
    path = exported(net, tmp_path / "net.onnx", dynamo=True, **options)
    assert (tmp_path / "net.onnx.data").is_file() == options.get("external_data", True)
    assert_agree(f"{path}?batch=3&rows=5" if "dynamic_shapes" in options else str(path))


class Samples(CalibrationDataReader):
    def __init__(self) -> None:
        numbers = np.random.default_rng(0)
        self._left = [{"x": numbers.standard_normal((2, 3, 8, 8)).astype(np.float32)} for _ in range(2)]

    def get_next(self) -> Any:
        return self._left.pop() if self._left else None


def static(form: QuantFormat, **options: Any) -> Callable[[Path, Path], None]:
    return lambda path, into: quantize_static(str(path), str(into), Samples(), quant_format=form, **options)


def four_bits(kind: int) -> Callable[[Path, Path], None]:
    def quantise(path: Path, into: Path) -> None:
        blocks = MatMulBnb4Quantizer(onnx.load(str(path)), kind, 16)
        blocks.process()
        blocks.model.save_model_to_file(str(into))

    return quantise


#: A step of the softmax's scale, of the quantised models; a dynamic one rounds all operands.
STEP = 1 / 127
QUANTISERS: dict[str, tuple[Callable[[Path, Path], None], set[str]]] = {
    "QDQ": (static(QuantFormat.QDQ), {"QuantizeLinear", "DequantizeLinear"}),
    "QDQ by channel": (static(QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8), {"QuantizeLinear"}),
    "QOperator": (static(QuantFormat.QOperator), {"QLinearConv", "QLinearMatMul", "com.microsoft.QLinearAdd"}),
    "FP4": (four_bits(MatMulBnb4Quantizer.FP4), {"com.microsoft.MatMulBnb4"}),
    "NF4": (four_bits(MatMulBnb4Quantizer.NF4), {"com.microsoft.MatMulBnb4"}),
    "dynamic": (
        lambda path, into: quantize_dynamic(str(path), str(into)),
        {"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"},
    ),
}


@pytest.mark.parametrize("name", QUANTISERS)
def test_what_onnxruntime_quantises_is_translated(traced: Path, tmp_path: Path, name: str) -> None:
    quantise, wanted = QUANTISERS[name]
    quantise(traced, tmp_path / "q.onnx")
    assert wanted <= {op_of(node) for node in load_model(tmp_path / "q.onnx").graph.node}
    ours, theirs = both(str(tmp_path / "q.onnx"))
    assert np.abs(ours[0] - theirs[0]).max() <= STEP and np.abs(ours[0]).max() > 10 * STEP
    assert (ours[1] == theirs[1]).mean() > 0.9  # of values a step apart either may be the largest


_CONVERT = """
import sys, torch, litert_torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                            torch.nn.Flatten(), torch.nn.Linear(4, 5), torch.nn.Softmax(-1)).eval()
litert_torch.convert(model, (torch.zeros(2, 3, 8, 8),)).export(sys.argv[1])
x = torch.linspace(-1, 1, 384).reshape(2, 3, 8, 8)
torch.save(model(x).detach(), sys.argv[2])
"""


@pytest.mark.nightly
def test_what_litert_torch_converts_is_translated(tmp_path: Path) -> None:
    environment = made_environment("litert")
    if environment is None:
        pytest.skip("no environment litert")
    script = tmp_path / "convert.py"
    script.write_text(_CONVERT)
    path, right = tmp_path / "m.tflite", tmp_path / "right.pt"
    subprocess.run(
        [environment.python, str(script), str(path), str(right)], check=True, timeout=CONVERSION_S, capture_output=True
    )
    np.savez(tmp_path / "x.npz", np.linspace(-1, 1, 384, dtype=np.float32).reshape(2, 3, 8, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (one,) = open_source(f"{path}?inputs={tmp_path / 'x.npz'}")
        made = one.make()  # type: ignore[union-attr]
    (found,) = made.program(*made.args).values()
    torch.testing.assert_close(found, torch.load(right), rtol=1e-5, atol=1e-6)
