"""The models of the study: architecture, activation, pooling, trained or not, with weights equal on every machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from torch import nn

from mindgap.graph import Array
from mindgap_studies.machines.models.digits import enlarged
from mindgap_studies.machines.models.initial_weights import Scheme, initial_weights, load
from mindgap_studies.machines.models.networks import Activation, Pooling, ResNet18, ResNet50V2, SmallCnn
from mindgap_studies.machines.models.trained_weights import FOLDER, expand, read

Architecture = Literal["small", "resnet18", "resnet50v2"]
_NETWORKS: Final[Mapping[Architecture, Callable[[Activation, Pooling], nn.Module]]] = {
    "small": SmallCnn,
    "resnet18": ResNet18,
    "resnet50v2": ResNet50V2,
}
_SEEDS: Final = {"small": 1, "resnet18": 2, "resnet50v2": 3}

#: Variants without training (Figures SUP-6 and SUP-7).
_SMALL: Final[tuple[Architecture, ...]] = ("small", "resnet18")
_UNTRAINED: Final[tuple[tuple[Activation, Pooling], ...]] = (
    ("relu", "max"), ("sigmoid", "average"), ("linear", "average"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelVariant:
    """A model. `size`: height and width of its input, 32 as in the paper; 64 for ResNet-50v2 (the paper: 224)."""

    architecture: Architecture
    activation: Activation
    pooling: Pooling
    trained: bool
    size: int = 32

    @property
    def file(self) -> str:
        """Name of its file of trained weights, without the suffix."""
        return f"{self.architecture}-{self.activation}-{self.pooling}"

    @property
    def name(self) -> str:
        return f"{self.file}-{'trained' if self.trained else 'untrained'}"

    @property
    def scheme(self) -> Scheme:
        """Xavier for sigmoid and linear, He for ReLU (supplement E)."""
        return "he" if self.activation == "relu" else "xavier"


VARIANTS: Final = (
    ModelVariant("small", "relu", "max", True),
    ModelVariant("resnet18", "relu", "max", True),
    ModelVariant("resnet50v2", "relu", "max", True, 64),
    ModelVariant("small", "sigmoid", "average", True),
    ModelVariant("resnet18", "sigmoid", "average", True),
    *(
        ModelVariant(architecture, activation, pooling, False)
        for architecture in _SMALL
        for activation, pooling in _UNTRAINED
    ),
)


def network(variant: ModelVariant) -> nn.Module:
    return _NETWORKS[variant.architecture](variant.activation, variant.pooling).eval()


def initial(variant: ModelVariant, module: nn.Module) -> dict[str, Array]:
    return initial_weights(module, variant.scheme, _SEEDS[variant.architecture])


def build(variant: ModelVariant) -> nn.Module:
    module = network(variant)
    weights = initial(variant, module)
    load(module, weights)
    if variant.trained:
        load(module, expand(weights, read(FOLDER / f"{variant.file}.npz")))
    return module


def samples(size: int) -> dict[int, Array]:
    """Returns the study's three images of the test set, by their number in it, as float32 [1, 3, size, size]."""
    entries = read(FOLDER / "samples.npz")
    images = enlarged(entries["images"], size)
    return {int(number): images[i : i + 1] for i, number in enumerate(entries["numbers"])}
