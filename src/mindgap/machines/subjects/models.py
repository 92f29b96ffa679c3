"""The paper's models on its samples, and the same cast to other floating-point formats (Figures 5, 6, SUP-4 to SUP-7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch

from mindgap.capture import capture
from mindgap.graph import TensorStore
from mindgap.machines.models.variants import VARIANTS, Variant, build, samples
from mindgap.machines.observations import Fact
from mindgap.machines.settings import Group
from mindgap.machines.subjects.runnable import Keep, Runnable, runnable

_EVERYWHERE: Final[tuple[Group, ...]] = ("float32", "reduced")
_CASTS: Final = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}


def models(store: TensorStore, variants: tuple[Variant, ...] = VARIANTS) -> Iterator[Runnable]:
    """Yields the variants: the trained ones with three samples, the others with one."""
    for variant in variants:
        module = build(variant)
        for number, image in samples(variant.size).items():
            if number and not variant.trained:
                continue
            graph = capture(module, (torch.from_numpy(image),), tensors=store)
            keep, groups = _kept(variant, number)
            name = f"{variant.name}/{number}"
            yield runnable(name, "models", graph, _facts(variant, number), keep=keep, groups=groups)
            if variant.size > 32 and not number:
                # Every value of a large network on every setting would take hours.
                facts = _facts(variant, number)
                yield runnable(f"{name}/layers", "layers", graph, facts, keep="all", groups=("tiers",))


def casts(store: TensorStore, variants: tuple[Variant, ...] = VARIANTS) -> Iterator[Runnable]:
    """Yields the trained variants with ReLU, cast as a whole, with the first sample."""
    for variant in variants:
        if not variant.trained or variant.activation != "relu":
            continue
        groups: tuple[Group, ...] = ("tiers",) if variant.size > 32 else ("float32",)
        image = torch.from_numpy(samples(variant.size)[0])
        for dtype, kind in _CASTS.items():
            graph = capture(build(variant).to(kind), (image.to(kind),), tensors=store)
            yield runnable(
                f"{variant.name}/0/{dtype}", "casts", graph, {**_facts(variant, 0), "dtype": dtype}, groups=groups
            )


def _kept(variant: Variant, number: int) -> tuple[Keep, tuple[Group, ...]]:
    """Returns the values that are kept, and the settings: values are compared where float32 is computed in float32."""
    if variant.size > 32:
        return "outputs", _EVERYWHERE
    if number:
        return "layers", ("float32",)
    return "all", ("float32",)


def _facts(variant: Variant, number: int) -> dict[str, Fact]:
    return {
        "model": variant.architecture,
        "activation": variant.activation,
        "pooling": variant.pooling,
        "trained": variant.trained,
        "sample": number,
        "dtype": "float32",
    }
