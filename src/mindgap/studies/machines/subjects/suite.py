"""The whole set of subjects, and a small one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mindgap.graph import TensorStore
from mindgap.studies.machines.models.variants import VARIANTS
from mindgap.studies.machines.subjects.convolutions import ablation, distributions
from mindgap.studies.machines.subjects.models import casts, models, reduced
from mindgap.studies.machines.subjects.operators import operators
from mindgap.studies.machines.subjects.runnable import Runnable

#: Makes subjects. Their weights and inputs go into the store.
Suite = Callable[[TensorStore], list[Runnable]]
_QUICK: Final = tuple(each for each in VARIANTS if each.architecture != "resnet50v2" and each.activation == "relu")


def full_suite(store: TensorStore) -> list[Runnable]:
    """Returns every subject of the study."""
    return [
        *models(store), *reduced(store), *casts(store), *operators(store), *distributions(store), *ablation()
    ]  # fmt: skip


def quick_suite(store: TensorStore) -> list[Runnable]:
    """Returns the small CNN and the ResNet-18 with ReLU, their casts, and the operators."""
    return [*models(store, _QUICK), *reduced(store, _QUICK), *casts(store, _QUICK), *operators(store)]
