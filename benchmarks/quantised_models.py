"""Makes small quantised models, for a catalogue whose variants have quantised operators.

    python benchmarks/quantised_models.py out/quantised      # writes ONNX files into the folder, and prints all sources
    mindgap corpus build out/catalogue $(python benchmarks/quantised_models.py out/quantised)
    mindgap corpus build out/catalogue 'onnx:*'              # ONNX's conformance cases, into the same catalogue

The modules are those of `torch.ao.quantization` (dynamic, static, FX), the files those of `onnxruntime.quantization`:
QDQ and QOperator, weights per tensor and per channel, signed and unsigned, dynamic ones, weights of 4 bits in blocks;
and those of PyTorch's `pt2e` flow, exported by `torch.onnx`. These need torchao, which PyTorch does not bring: this
file runs itself in the environment `executorch`, and leaves them out where there is none.
"""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import (
    DeQuantStub,
    QuantStub,
    convert,
    get_default_qconfig,
    get_default_qconfig_mapping,
    prepare,
    quantize_dynamic,
)  # fmt: skip
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.nn import functional as F


class Picture(nn.Module):
    """Convolutions with normalisation, groups and a residual sum; pooling; a linear layer."""

    def __init__(self, groups: int = 2) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 8, 3, padding=1, groups=groups), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        return self.last(torch.flatten(F.max_pool2d(torch.relu(self.second(y) + y), 2), 1))


class Signal(nn.Module):
    """A strided and dilated convolution of one dimension, a sigmoid, a mean, a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(4, 6, 5, stride=2, padding=2), nn.Conv1d(6, 6, 3, dilation=2, padding=2)
        self.last = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(self.first(x))
        return self.last(torch.cat([y.mean(-1), F.leaky_relu(self.second(y), 0.1).mean(-1)], 1))


class Attention(nn.Module):
    """One head of attention with a softmax, a layer norm and a GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.norm, self.last = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2) / 4.0, -1)
        return self.last(F.gelu(self.norm(x + weights @ self.value(x))))


class Layers(nn.Module):
    """Linear layers with a ReLU and a hard swish."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(32, 48), nn.Linear(48, 24), nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.hardswish(self.second(torch.relu(self.first(x)))))


class Stubs(nn.Module):
    """A residual sum and a product between a quantisation and a dequantisation, in eager mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 4)
        self.sum, self.product = FloatFunctional(), FloatFunctional()
        self.quant, self.dequant = QuantStub(), DeQuantStub()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.quant(x)
        return self.dequant(self.last(self.product.mul(self.sum.add(x, self.first(x)), x)))


#: Float models with the shape of their input.
FLOAT: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "picture": (Picture, (2, 3, 8, 8)),
    "depthwise": (lambda: Picture(groups=8), (2, 3, 8, 8)),
    "signal": (Signal, (3, 4, 20)),
    "attention": (Attention, (2, 6, 16)),
    "layers": (Layers, (7, 32)),
}


def _float(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(len(name))
    made, shape = FLOAT[name]
    return made().eval(), torch.randn(shape)


def modules() -> list[tuple[str, nn.Module, tuple[torch.Tensor]]]:
    """Returns the modules of `torch.ao.quantization`, each with its argument."""
    warnings.simplefilter("ignore")
    torch.backends.quantized.engine = "x86"
    found: list[tuple[str, nn.Module, tuple[torch.Tensor]]] = []
    for name in ("attention", "layers"):
        module, x = _float(name)
        found.append((f"{name}:dynamic", quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8), (x,)))
    for name, engine in itertools.product(FLOAT, ("x86", "qnnpack")):
        module, x = _float(name)
        prepared = prepare_fx(module, get_default_qconfig_mapping(engine), (x,))
        prepared(x)
        found.append((f"{name}:fx-{engine}", convert_fx(prepared), (x,)))
    stubs, x = Stubs().eval(), torch.randn(6, 16)
    stubs.qconfig = get_default_qconfig("x86")  # pyright: ignore[reportAttributeAccessIssue] # PyTorch's own way
    prepared = prepare(stubs)
    prepared(x)
    return [*found, ("stubs:static", convert(prepared), (x,))]


def write_files(folder: Path) -> Iterator[Path]:
    """Writes the ONNX files and yields their paths."""
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic as dynamic, quantize_static
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    folder.mkdir(parents=True, exist_ok=True)
    types = {"s8": QuantType.QInt8, "u8": QuantType.QUInt8}
    for name in FLOAT:
        module, x = _float(name)
        plain = folder / f"{name}.float"
        torch.onnx.export(module, (x,), str(plain), input_names=["x"], dynamo=False, opset_version=17)
        for layout, (a, b), channel in itertools.product(QuantFormat, itertools.product(types, types), (False, True)):
            if (a, b) == ("s8", "u8"):
                continue  # no kernel of ONNX Runtime takes signed activations with unsigned weights
            path = folder / f"{name}-{layout.name.lower()}-{a}{b}{'-channel' * channel}.onnx"
            quantize_static(
                str(plain), str(path), _Calibration(x), quant_format=layout, per_channel=channel,
                activation_type=types[a], weight_type=types[b],
            )  # fmt: skip
            yield path
        for kind, weight in types.items():
            path = folder / f"{name}-dynamic-{kind}.onnx"
            dynamic(str(plain), str(path), weight_type=weight)
            yield path
        if name == "attention":  # the others have no MatMul
            blocks = MatMulNBitsQuantizer(onnx.load(str(plain)), block_size=16)
            blocks.process()
            path = folder / f"{name}-blocks-u4.onnx"
            blocks.model.save_model_to_file(str(path))
            yield path


def pt2e_files(folder: Path) -> list[Path]:
    """Writes the ONNX files of the `pt2e` flow in the environment `executorch`, and returns their paths; none without
    it."""
    from mindgap.platforms.environments import EnvironmentProblem, find

    folder.mkdir(parents=True, exist_ok=True)
    try:
        python = find("executorch").python
    except EnvironmentProblem as problem:
        print(f"no files of the pt2e flow: {problem}; mindgap env create executorch", file=sys.stderr)
        return []
    command = [str(python), __file__, "--pt2e", str(folder)]
    return [
        Path(line) for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    ]


def write_pt2e_files(folder: Path) -> Iterator[Path]:
    """Writes the ONNX files of the `pt2e` flow and yields their paths. XNNPACK's quantiser makes int8 of activations
    and weights, that of Inductor uint8 of activations, and quantises operands only.

    Operator set 18 is the newest that PyTorch's exporter writes and RKNN-Toolkit2 reads.
    """
    xnnpack, inductor, flow = (
        importlib.import_module(name) for name in (
            "executorch.backends.xnnpack.quantizer.xnnpack_quantizer",
            "torchao.quantization.pt2e.quantizer.x86_inductor_quantizer",
            "torchao.quantization.pt2e.quantize_pt2e",
        )
    )  # fmt: skip
    quantisers: dict[str, tuple[Any, Any]] = {
        "xnnpack": (xnnpack.XNNPACKQuantizer, xnnpack.get_symmetric_quantization_config()),
        "xnnpack-channel": (xnnpack.XNNPACKQuantizer, xnnpack.get_symmetric_quantization_config(is_per_channel=True)),
        "x86": (inductor.X86InductorQuantizer, inductor.get_default_x86_inductor_quantization_config()),
    }
    for name, (kind, (made, config)) in itertools.product(FLOAT, quantisers.items()):
        module, x = _float(name)
        prepared = flow.prepare_pt2e(torch.export.export(module, (x,)).module(), made().set_global(config))
        for _ in range(8):
            prepared(torch.randn_like(x))
        path = folder / f"{name}-pt2e-{kind}.onnx"
        converted = flow.convert_pt2e(prepared)
        torch.onnx.export(converted, (x,), str(path), dynamo=True, opset_version=18, external_data=False, verbose=False)
        yield path


class _Calibration:
    """Gives eight batches like the example."""

    def __init__(self, x: torch.Tensor) -> None:
        self.left = iter([{"x": torch.randn_like(x).numpy()} for _ in range(8)])

    def get_next(self) -> dict[str, Any] | None:
        """Returns the next batch, or None."""
        return next(self.left, None)


if __name__ == "__main__":
    if sys.argv[1] == "--pt2e":
        for written in write_pt2e_files(Path(sys.argv[2])):
            print(written)
    else:
        target = Path(sys.argv[1])
        print(f"{__file__}:modules", *write_files(target), *pt2e_files(target))
