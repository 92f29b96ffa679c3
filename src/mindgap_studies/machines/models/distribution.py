"""Weights and inputs of one convolution of the trained ResNet-18, for the paper's twelve distributions (§3.5)."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from torch import nn

from mindgap.graph import Array, Input, Normal, TensorSpec, materialise
from mindgap_studies.machines.models.initial_weights import limit, uniform
from mindgap_studies.machines.models.trained_weights import FOLDER, read
from mindgap_studies.machines.models.variants import VARIANTS, ModelVariant, build

MODEL: Final[ModelVariant] = next(each for each in VARIANTS if each.architecture == "resnet18" and each.trained)
#: The paper's conv2d_11, counted from 0 in the order of the modules.
NUMBER: Final = 11
FILE: Final = FOLDER / "distribution.npz"


def layer(module: nn.Module) -> nn.Conv2d:
    return [each for each in module.modules() if isinstance(each, nn.Conv2d)][NUMBER]


@cache
def _file() -> dict[str, Array]:
    """`input`: the layer's input with the first sample, float32, as one machine computed it. `mean`, `std`: of the
    trained weights."""
    return read(FILE)


def weights() -> dict[str, Array]:
    """Returns the trained weights, Glorot's uniform ones, and normal ones with the trained weights' mean and spread."""
    trained = layer(build(MODEL)).weight.detach().numpy()
    spec = TensorSpec.contiguous("float32", trained.shape)
    fitted = Normal(12, float(_file()["mean"]), float(_file()["std"]))
    return {
        "trained": trained,
        "glorot": uniform(trained.shape, limit(trained.shape, "xavier"), 11),
        "normal": materialise(Input(spec, fitted)),
    }


def inputs() -> dict[str, Array]:
    """Returns the captured input, two permutations of its values, and uniform values in [0, 1)."""
    captured = _file()["input"]
    flat = captured.reshape(-1)
    permuted = {
        f"permuted_{seed}": flat[np.random.Generator(np.random.PCG64(seed)).permutation(flat.size)].reshape(
            captured.shape
        )
        for seed in (1, 2)
    }
    return {"captured": captured, **permuted, "uniform": np.abs(uniform(captured.shape, 1.0, 13))}
