"""The paper's models with its samples, and the same cast to other dtypes (Figures 5, 6, SUP-4 to SUP-7)."""

# pyright: reportUnknownMemberType=false
# (torch.from_numpy has no complete type)

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Final

import torch

from mindgap.graph import TensorStore
from mindgap.graph_capture import capture
from mindgap_studies.machines.models.variants import VARIANTS, ModelVariant, build, samples
from mindgap_studies.machines.observations import Fact
from mindgap_studies.machines.settings import Group
from mindgap_studies.machines.subjects.convolutions import ablation, distributions
from mindgap_studies.machines.subjects.operators import operators
from mindgap_studies.machines.subjects.runnable import Keep, Runnable, runnable

_CASTS: Final = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}


def models(store: TensorStore, variants: tuple[ModelVariant, ...] = VARIANTS) -> Iterator[Runnable]:
    """Yields the variants: the trained ones with three samples, the others with one."""
    for variant in variants:
        module = build(variant)
        for number, image in samples(variant.size).items():
            if number and not variant.trained:
                continue
            graph = capture(module, (torch.from_numpy(image),), tensors=store)
            # Every value of one sample; of the others the values around activations.
            keep: Keep = "layers" if number else "all"
            name = f"{variant.name}/{number}"
            yield runnable(name, "models", graph, _facts(variant, number), keep=keep, groups=_groups(variant))


def reduced(store: TensorStore, variants: tuple[ModelVariant, ...] = VARIANTS) -> Iterator[Runnable]:
    """Yields the small models with ReLU and the first sample, for settings that compute in less than float32."""
    for variant in variants:
        if variant.trained and variant.activation == "relu" and variant.architecture != "resnet50v2":
            image = torch.from_numpy(samples(variant.size)[0])
            graph = capture(build(variant), (image,), tensors=store)
            name = f"{variant.name}/0/any-precision"
            yield runnable(name, "reduced", graph, _facts(variant, 0), groups=("float32", "reduced"))


def casts(store: TensorStore, variants: tuple[ModelVariant, ...] = VARIANTS) -> Iterator[Runnable]:
    """Yields the trained variants with ReLU, cast as a whole, with the first sample."""
    for variant in variants:
        if not variant.trained or variant.activation != "relu":
            continue
        image = torch.from_numpy(samples(variant.size)[0])
        module = build(variant)
        for dtype, kind in _CASTS.items():
            graph = capture(copy.deepcopy(module).to(kind), (image.to(kind),), tensors=store)
            facts = {**_facts(variant, 0), "dtype": dtype}
            yield runnable(f"{variant.name}/0/{dtype}", "casts", graph, facts, groups=_groups(variant))


def _groups(variant: ModelVariant) -> tuple[Group, ...]:
    """Returns the settings on which a variant runs: for the large model fewer than for the others."""
    return ("tiers",) if variant.architecture == "resnet50v2" else ("float32",)


def _facts(variant: ModelVariant, number: int) -> dict[str, Fact]:
    return {
        "model": variant.architecture,
        "activation": variant.activation,
        "pooling": variant.pooling,
        "trained": variant.trained,
        "sample": number,
        "dtype": "float32",
    }


#: Makes subjects. Their weights and inputs go into the store.
Suite = Callable[[TensorStore], list[Runnable]]
_QUICK: Final = tuple(each for each in VARIANTS if each.architecture != "resnet50v2" and each.activation == "relu")


def full_suite(store: TensorStore) -> list[Runnable]:
    return [
        *models(store), *reduced(store), *casts(store), *operators(store), *distributions(store), *ablation()
    ]  # fmt: skip


def quick_suite(store: TensorStore) -> list[Runnable]:
    """Returns the small CNN and the ResNet-18 with ReLU, their casts, and the operators."""
    return [*models(store, _QUICK), *reduced(store, _QUICK), *casts(store, _QUICK), *operators(store)]
