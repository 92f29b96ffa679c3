"""Trains a small detector on synthetic images: one to three of scikit-learn's digits at random places.

    python examples/task/detector.py
    mindgap study task examples/task/detector.py:make out/task/detector.npz --batch 20 -p onnxruntime/cpu \\
        --form bfloat16='examples/task/detector.py:make?dtype=bfloat16' --form int8=out/task/detector_static.onnx

Recipe: images of 32 × 32 pixels, drawn anew at each of 500 steps of Adam (0.003, batches of 32) from the first 1,297
digits, seed 0. Tested on 200 images of the other 500 digits. A cell of 4 × 4 pixels that is the brightest of its
neighbours for a class is a detection, so that no suppression of overlapping boxes follows.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

FOLDER = Path("out/task")
SIZE, CELL, DIGIT, MOST, BATCH = 32, 4, 10, 3, 20


class Detector(nn.Module):
    """Takes images [B, 1, 32, 32], gives boxes [B, 64, 4] in pixels and scores [B, 64, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        )  # fmt: skip
        self.classes, self.sides = nn.Conv2d(64, 10, 1), nn.Conv2d(64, 4, 1)
        nn.init.constant_(self.classes.bias, -4.0)
        middles = (torch.arange(SIZE // CELL) + 0.5) * CELL
        self.register_buffer("middles", torch.stack([middles.repeat(8), middles.repeat_interleave(8)], 1))

    def heads(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [B, 10, 8, 8], and how far each side is from the middle of its cell [B, 4, 8, 8]."""
        features = self.body(images)
        return self.classes(features), nn.functional.softplus(self.sides(features)) * CELL

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits, sides = self.heads(images)
        scores = torch.sigmoid(logits)
        peaks = nn.functional.max_pool2d(scores, 3, 1, 1)
        kept = torch.where(scores == peaks, scores, torch.zeros_like(scores))
        low, high = sides.flatten(2).transpose(1, 2).chunk(2, 2)
        return torch.cat([self.middles - low, self.middles + high], 2), kept.flatten(2).transpose(1, 2)


def scenes(
    count: int, images: torch.Tensor, labels: torch.Tensor, random: np.random.Generator
) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """Images [N, 1, 32, 32], boxes [N, 3, 4] and labels [N, 3], -1 where an image has fewer."""
    drawn, boxes = torch.zeros(count, 1, SIZE, SIZE), np.zeros((count, MOST, 4), np.float32)
    found = np.full((count, MOST), -1)
    for scene in range(count):
        places = random.permutation(9)[: random.integers(1, MOST + 1)]
        for number, place in enumerate(places):
            digit = random.integers(len(images))
            left, top = (int(each) * 10 + int(random.integers(3)) for each in (place % 3, place // 3))
            drawn[scene, 0, top : top + DIGIT, left : left + DIGIT] = images[digit]
            boxes[scene, number], found[scene, number] = (left, top, left + DIGIT, top + DIGIT), int(labels[digit])
    return (drawn + torch.from_numpy(random.normal(0, 0.15, drawn.shape)).float()), boxes, found


def loss_of(model: Detector, images: torch.Tensor, boxes: np.ndarray, labels: np.ndarray) -> torch.Tensor:
    """Focal loss of the cells that hold a middle, and the distance of their sides."""
    logits, sides = model.heads(images)
    scene, number = np.nonzero(labels >= 0)
    box = torch.from_numpy(boxes[scene, number])
    cell = ((box[:, :2] + box[:, 2:]) / 2 / CELL).long()
    target = torch.zeros_like(logits)
    target[scene, labels[scene, number], cell[:, 1], cell[:, 0]] = 1
    share = torch.sigmoid(logits)
    weight = torch.where(target > 0, (1 - share) ** 2, share**2)
    classes = (weight * nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")).sum()
    middle = (cell + 0.5) * CELL
    wanted = torch.cat([middle - box[:, :2], box[:, 2:] - middle], 1)
    apart = (sides[scene, :, cell[:, 1], cell[:, 0]] - wanted).abs().sum()
    return (classes + 0.1 * apart) / len(scene)


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Digits of 10 × 10 pixels in 0..1, and their labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    small = torch.tensor(data.images / 16, dtype=torch.float32)[:, None]
    return nn.functional.interpolate(small, size=(DIGIT, DIGIT), mode="bilinear")[:, 0], torch.tensor(data.target)


def trained() -> Detector:
    """The detector with the weights that `main` has written."""
    file = FOLDER / "detector.pt"
    if not file.is_file():
        raise SystemExit(f"{file} is not there: run python examples/task/detector.py first")
    model = Detector()
    model.load_state_dict(torch.load(file, weights_only=True))
    return model.eval()


def make() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The detector as it was trained."""
    return trained(), (torch.zeros(BATCH, 1, SIZE, SIZE),)


def write_onnx(model: nn.Module, calibration: torch.Tensor) -> None:
    """Writes the detector, and ONNX Runtime's static int8 form of it, whose heads stay in float32."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = iter(calibration.split(BATCH))

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(self.batches, None)
            return None if batch is None else {"images": batch.numpy()}

    given = (torch.zeros(BATCH, 1, SIZE, SIZE),)
    exported = torch.onnx.export(model, given, dynamo=True, verbose=False, input_names=["images"]).model_proto
    # ONNX Runtime's quantiser infers shapes itself, and the exporter's are in its way.
    del exported.graph.value_info[:]
    plain = FOLDER / "detector.onnx"
    plain.write_bytes(exported.SerializeToString())
    quantize_static(
        plain, FOLDER / "detector_static.onnx", Reader(), quant_format=QuantFormat.QDQ, op_types_to_quantize=["Conv"]
    )


def main() -> None:
    """Trains, and writes weights, the test set and ONNX files."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    started = time.process_time()
    images, labels = digits()
    random = np.random.default_rng(0)
    model = Detector()
    optimiser = torch.optim.Adam(model.parameters(), 0.003)
    for _ in range(500):
        loss = loss_of(model, *scenes(32, images[:1297], labels[:1297], random))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), FOLDER / "detector.pt")
    drawn, boxes, found = scenes(200, images[1297:], labels[1297:], random)
    np.savez(FOLDER / "detector.npz", images=drawn.numpy(), boxes=boxes, box_labels=found)
    print(f"trained in {time.process_time() - started:.0f} CPU s: loss {float(loss):.2f}")
    write_onnx(model.eval(), scenes(200, images[:1297], labels[:1297], random)[0])


if __name__ == "__main__":
    sys.exit(main())
