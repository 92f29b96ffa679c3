"""Trains a small convolution net on scikit-learn's digits, and writes what `mindgap study task` needs.

    python examples/task/digits.py
    mindgap study task examples/task/digits.py:make out/task/digits.npz -p onnxruntime/cpu \\
        --form bfloat16='examples/task/digits.py:make?dtype=bfloat16' --form int8=out/task/digits_static.onnx

    mindgap study task examples/task/digits.py:make out/task/digits.npz -p onnxruntime/qnn@soc=SM8550 \\
        -p rknn/simulator@calibration=out/task/digits_calibration.txt --form int8=out/task/digits_npu.onnx

Recipe: the first 1,297 of 1,797 images, 12 epochs of Adam (0.003, batches of 64), seed 0. The other 500 are the test
set. Needs scikit-learn, onnx and onnxruntime (`pip install 'mindgap[training,onnxruntime]'`).
"""

from __future__ import annotations

import copy
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

FOLDER = Path("out/task")
TRAINED, BATCH = 1297, 32


class Digits(nn.Module):
    """Two convolutions and two dense layers for images [1, 8, 8]. `quant` and `dequant`: places for int8's ends."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = nn.Identity(), nn.Identity()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(24 * 16, 48), nn.ReLU(), nn.Linear(48, 10),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.dequant(self.layers(self.quant(images)))


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Images [N, 1, 8, 8] in 0..1 and their labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return torch.tensor(data.images / 16, dtype=torch.float32)[:, None], torch.tensor(data.target)


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int = 12) -> None:
    """Trains in place, on one thread, with a fixed order of images."""
    order = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), 0.003)
    for _ in range(epochs):
        for picks in torch.randperm(len(images), generator=order).split(64):
            loss = nn.functional.cross_entropy(model(images[picks]), labels[picks])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def trained() -> Digits:
    """The network with the weights that `main` has written."""
    file = FOLDER / "digits.pt"
    if not file.is_file():
        raise SystemExit(f"{file} is not there: run python examples/task/digits.py first")
    model = Digits()
    model.load_state_dict(torch.load(file, weights_only=True))
    return model.eval()


def make() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The model as it was trained."""
    return trained(), (torch.zeros(BATCH, 1, 8, 8),)


def dynamic() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """int8 weights in dense layers; activations are quantised as they come (PyTorch's dynamic quantisation)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(trained(), {nn.Linear}), (torch.zeros(BATCH, 1, 8, 8),)


def static() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """int8 weights and activations, calibrated on 256 training images (PyTorch's static quantisation)."""
    import torch.ao.quantization as quantisation

    torch.backends.quantized.engine = "fbgemm"
    model = trained()
    model.quant, model.dequant = quantisation.QuantStub(), quantisation.DeQuantStub()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.qconfig = quantisation.get_default_qconfig("fbgemm")
        prepared = quantisation.prepare(model)
        prepared(digits()[0][:256])
        return quantisation.convert(prepared), (torch.zeros(BATCH, 1, 8, 8),)


def write_onnx(model: nn.Module, calibration: np.ndarray) -> None:
    """Writes the model, ONNX Runtime's dynamic and static int8 forms of it, and the form for Qualcomm's NPUs."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize, quantize_dynamic, quantize_static
    from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = iter(np.split(calibration, len(calibration) // BATCH))

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(self.batches, None)
            return None if batch is None else {"input": batch}

    def export(file: Path, opset: int) -> Path:
        given = (torch.zeros(BATCH, 1, 8, 8),)
        program = torch.onnx.export(
            model, given, dynamo=True, verbose=False, input_names=["input"], opset_version=opset
        )
        # ONNX Runtime's quantiser infers shapes itself, and the exporter's are in its way.
        exported = program.model_proto
        del exported.graph.value_info[:]
        file.write_bytes(exported.SerializeToString())
        return file

    plain = export(FOLDER / "digits.onnx", 20)
    quantize_dynamic(plain, FOLDER / "digits_dynamic.onnx")
    quantize_static(plain, FOLDER / "digits_static.onnx", Reader(), quant_format=QuantFormat.QDQ)
    # Rockchip's toolkit reads operator sets up to 19.
    npu = export(FOLDER / "digits_18.onnx", 18)
    quantize(npu, FOLDER / "digits_npu.onnx", get_qnn_qdq_config(npu, Reader()))


def write_calibration(calibration: np.ndarray) -> None:
    """Writes batches as .npy files, and the list of them by which Rockchip's toolkit quantises a model."""
    files: list[Path] = []
    for number, batch in enumerate(np.split(calibration, len(calibration) // BATCH)):
        files.append((FOLDER / f"digits_calibration_{number}.npy").resolve())
        np.save(files[-1], batch)
    (FOLDER / "digits_calibration.txt").write_text("".join(f"{file}\n" for file in files))


def main() -> None:
    """Trains, prints the accuracy, and writes weights, the test set and ONNX files."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    started = time.process_time()
    images, labels = digits()
    model = Digits()
    train(model.train(), images[:TRAINED], labels[:TRAINED])
    model.eval()
    with torch.no_grad():
        right = int((model(images[TRAINED:]).argmax(1) == labels[TRAINED:]).sum())
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.save(copy.deepcopy(model.state_dict()), FOLDER / "digits.pt")
    np.savez(FOLDER / "digits.npz", images=images[TRAINED:].numpy(), labels=labels[TRAINED:].numpy())
    print(f"trained in {time.process_time() - started:.0f} CPU s: {right} of {len(images) - TRAINED} test images right")
    write_onnx(model, images[:256].numpy())
    write_calibration(images[:256].numpy())


if __name__ == "__main__":
    sys.exit(main())
