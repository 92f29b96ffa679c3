"""Trains the networks on scikit-learn's digits: `python tools/train_digits.py [NAME…]`.

Writes `trained/NAME.npz` and `trained/samples.npz` of `mindgap_studies.machines.models`. Needs scikit-learn (`pip
install 'mindgap[training]'`). One thread, seeded, deterministic kernels: the same files come out on the same machine.
Training changes convolutions and dense layers by a product of two thin matrices (`trained_weights`), all else freely.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from mindgap_studies.machines.models.digits import enlarged
from mindgap_studies.machines.models.distribution import FILE, MODEL, layer
from mindgap_studies.machines.models.initial_weights import load
from mindgap_studies.machines.models.trained_weights import FOLDER, LEFT, RIGHT, SCALE, WHOLE, expand
from mindgap_studies.machines.models.variants import VARIANTS, ModelVariant, build, initial, network, samples

Array = np.ndarray[Any, np.dtype[Any]]
#: Tensors with fewer elements are trained and kept whole.
_SMALL: Final = 6000
SAMPLES: Final = (0, 1, 6)
#: The last of the 1,797 images are the test set, in their order.
TESTED: Final = 360


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """How a network is trained: rank of the change, images per step, steps, learning rate of Adam.

    `measured`: images over which normalisation takes its statistics after training, with the final weights; 0 keeps the
    running ones, which few steps leave far from that.
    """

    rank: int
    batch: int
    steps: int
    rate: float
    measured: int = 0


RECIPES: Final = {
    "small": TrainingRecipe(16, 32, 1200, 2e-3),
    "resnet18": TrainingRecipe(2, 32, 270, 3e-3),
    "resnet50v2": TrainingRecipe(1, 16, 200, 3e-3, 160),
}


class _Trainable:
    """The tensors that training moves, and the parameters that they make."""

    def __init__(self, module: nn.Module, rank: int) -> None:
        self.fixed: dict[str, Tensor] = {}
        self.factors: dict[str, tuple[Tensor, Tensor]] = {}
        self.whole: dict[str, Tensor] = {}
        for name, parameter in module.named_parameters():
            start = parameter.detach().clone()
            if start.dim() > 1 and start.numel() >= _SMALL:
                self.fixed[name] = start
                left = torch.zeros(start.shape[0], rank)
                right = torch.randn(rank, start[0].numel()) / start[0].numel() ** 0.5
                self.factors[name] = left.requires_grad_(), right.requires_grad_()
            else:
                self.whole[name] = start.requires_grad_()

    def tensors(self) -> list[Tensor]:
        return [*self.whole.values(), *(each for pair in self.factors.values() for each in pair)]

    def parameters(self) -> dict[str, Tensor]:
        made = {
            name: self.fixed[name] + (a @ b).reshape(self.fixed[name].shape) for name, (a, b) in self.factors.items()
        }
        return {**self.whole, **made}


def train(module: nn.Module, images: Array, labels: Array, recipe: TrainingRecipe, size: int) -> dict[str, Array]:
    """Trains and returns the entries of the file. `images`: [N, 8, 8] integers. The module's buffers are changed."""
    torch.manual_seed(1)
    trainable = _Trainable(module, recipe.rank)
    optimiser = torch.optim.Adam(trainable.tensors(), lr=recipe.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.rate, total_steps=recipe.steps)
    module.train()
    order = np.random.Generator(np.random.PCG64(1))
    for _ in range(recipe.steps):
        picks = order.choice(len(images), recipe.batch, replace=False)
        found = functional_call(module, trainable.parameters(), torch.from_numpy(enlarged(images[picks], size)))
        loss = nn.functional.nll_loss(torch.log(found + 1e-9), torch.from_numpy(labels[picks]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    if recipe.measured:
        _measure_statistics(module, trainable, images[: recipe.measured], size)
    return _entries(module, trainable)


def _measure_statistics(module: nn.Module, trainable: _Trainable, images: Array, size: int) -> None:
    """Sets the running statistics of normalisation to the mean over batches, with the final weights."""
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.reset_running_stats()
            each.momentum = None
    with torch.no_grad():
        for start in range(0, len(images), 32):
            functional_call(
                module, trainable.parameters(), torch.from_numpy(enlarged(images[start : start + 32], size))
            )


def _entries(module: nn.Module, trainable: _Trainable) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, (left, right) in trainable.factors.items():
        found |= low_rank_entries(name, left.detach().numpy(), right.detach().numpy())
    kept = {**trainable.whole, **dict(module.named_buffers())}
    for name, tensor in kept.items():
        if tensor.is_floating_point():
            found |= whole_entries(name, tensor.detach().numpy())
    return found


def whole_entries(name: str, tensor: Array) -> dict[str, Array]:
    """Returns a tensor as 16-bit integers and a scale."""
    integers, scale = _rounded(tensor, np.int16)
    return {name + WHOLE: integers, name + SCALE: np.float64(scale)}  # type: ignore[dict-item]  # a scalar is saved like an array


def low_rank_entries(name: str, left: Array, right: Array) -> dict[str, Array]:
    """Returns the factors [outputs, rank] and [rank, inputs·kernel] as 8-bit integers, and the product's scale."""
    (a, scale_a), (b, scale_b) = _rounded(left, np.int8), _rounded(right, np.int8)
    return {name + LEFT: a, name + RIGHT: b, name + SCALE: np.float64(scale_a * scale_b)}  # type: ignore[dict-item]  # a scalar is saved like an array


def _rounded(tensor: Array, dtype: type[np.signedinteger[Any]]) -> tuple[Array, float]:
    most = float(np.iinfo(dtype).max)
    scale = float(np.abs(tensor).max()) / most or 1.0
    return np.round(tensor.astype(np.float64) / scale).astype(dtype), scale


def accuracy(module: nn.Module, images: Array, labels: Array, size: int) -> float:
    """Returns the share of images whose class of highest probability is right."""
    module.eval()
    right = 0
    with torch.no_grad():
        for start in range(0, len(images), 20):
            part = module(torch.from_numpy(enlarged(images[start : start + 20], size)))
            right += int((part.argmax(1).numpy() == labels[start : start + 20]).sum())
    return right / len(images)


def _digits() -> tuple[Array, Array]:
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    return digits.images.astype(np.int8), digits.target.astype(np.int64)


def _make(variant: ModelVariant, images: Array, labels: Array) -> str:
    started = time.process_time()
    module = network(variant)
    begun = initial(variant, module)
    load(module, begun)
    recipe = RECIPES[variant.architecture]
    entries = train(module, images[:-TESTED], labels[:-TESTED], recipe, variant.size)
    np.savez_compressed(FOLDER / f"{variant.file}.npz", **entries)  # type: ignore[arg-type]  # numpy types keywords as options
    again = network(variant)
    load(again, begun)
    load(again, expand(begun, entries))
    share = accuracy(again, images[-TESTED:], labels[-TESTED:], variant.size)
    size = (FOLDER / f"{variant.file}.npz").stat().st_size
    return f"{variant.file}: accuracy {share:.1%}, {size / 1e3:.0f} kB, {time.process_time() - started:.0f} CPU s"


def _record_distribution() -> None:
    """Keeps what `distribution` needs of the ResNet-18: the input of one layer, mean and spread of its weights."""
    module = build(MODEL)
    seen: list[Array] = []
    conv = layer(module)
    conv.register_forward_pre_hook(lambda _, given: seen.append(given[0].numpy()))
    with torch.no_grad():
        module(torch.from_numpy(samples(MODEL.size)[0]))
    weight = conv.weight.detach().numpy().astype(np.float64)
    np.savez_compressed(FILE, input=seen[0], mean=weight.mean(), std=weight.std())


def main(names: list[str]) -> int:
    """Trains the named variants, by default all. Prints a line for each."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    FOLDER.mkdir(exist_ok=True)
    images, labels = _digits()
    tested = images[-TESTED:]
    np.savez_compressed(FOLDER / "samples.npz", images=tested[list(SAMPLES)], numbers=np.array(SAMPLES))
    for variant in VARIANTS:
        if variant.trained and (not names or variant.file in names):
            print(_make(variant, images, labels), flush=True)
    _record_distribution()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
