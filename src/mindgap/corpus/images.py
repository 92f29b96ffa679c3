"""What the image zoos share: a model built without downloads, seeded, and given pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from mindgap.corpus.ledger import Ledger, seed_of
from mindgap.corpus.program import Built
from mindgap.corpus.seeding import seed_statistics, seed_weights
from mindgap.corpus.source import Settings, Source, SourceError, one_line
from mindgap.graph import Normal


def stay_offline() -> None:
    """Tell the hub clients, before they are imported, that they may not reach the network."""
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ.setdefault(variable, "1")


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """PyTorch's own generator set to `seed` inside, as it was afterwards."""
    with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType] # untyped
        torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType] # untyped
        yield


def construct(source: Source, chosen: Settings, make: Callable[[], nn.Module]) -> nn.Module:
    """The model with torch's generator seeded while it is built, in evaluation mode, in the dtype asked for.

    Raises `SourceError` with what the constructor said.
    """
    with seeded(chosen.seed):
        try:
            model = make()
        except SourceError:
            raise
        except Exception as error:
            raise SourceError(f"{source.text}: its constructor raised {one_line(error)}") from error
    model.requires_grad_(True)
    return model.eval() if chosen.dtype is None else model.eval().to(getattr(torch, chosen.dtype))


def with_pictures(model: nn.Module, shapes: Sequence[tuple[int, ...]], chosen: Settings) -> Built:
    """The model with seeded weights and a normal picture (as after normalisation) of each shape."""
    ledger = Ledger()
    dtype = chosen.dtype or "float32"
    seed_weights(model, chosen.seed, ledger)
    recipes = [Normal(seed_of(f"picture {index}", chosen.seed)) for index in range(len(shapes))]
    pictures = [ledger.draw(recipe, dtype, shape) for recipe, shape in zip(recipes, shapes, strict=True)]
    seed_statistics(model, lambda: model(*pictures), chosen.seed, ledger)
    if chosen.train:
        model.train()
    return Built(model, tuple(pictures), {}, ledger)
