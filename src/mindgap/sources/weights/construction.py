"""Constructs models: seeded, without random initial weights, without memory where only the size is wanted."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn

from mindgap.aten.torch_private.process_state import torch_seed
from mindgap.sources.source import Source, SourceError, SourceOptions, one_line
from mindgap.sources.weights.initialisation import QuantileInitialisation, SkippedInitialisation

_log = logging.getLogger(__name__)


def construct(
    source: Source,
    chosen: SourceOptions,
    make: Callable[[], nn.Module],
    filling: Callable[[], AbstractContextManager[Any]] | None = None,
) -> nn.Module:
    """Constructs a model in evaluation mode and in the dtype of the options.

    The initial weights are quantiles (see `initialisation`); draw them anew. Memory that the constructor leaves unset
    becomes 0. Raises `SourceError` with the constructor's message.
    """
    with torch_seed(chosen.seed), (filling or _quantiles_or_nan)():
        try:
            model = make()
        except SourceError:
            raise
        except Exception as error:
            raise SourceError(f"{source.text}: its constructor raised {one_line(error)}") from error
    if filling is not SkippedInitialisation:
        _set_unset(model)
    model.requires_grad_(True)
    return model.eval() if chosen.dtype is None else model.eval().to(getattr(torch, chosen.dtype))


@contextmanager
def _quantiles_or_nan() -> Generator[None]:
    """Fills random initial weights with quantiles, and unset memory with NaN, inside the block."""
    before, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with QuantileInitialisation():
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)


def _set_unset(model: nn.Module) -> None:
    """Sets NaN to 0 in parameters and buffers that begin or end with NaN: the constructor never set them."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() and tensor.numel() and not tensor.is_meta:
                ends = tensor.detach()[(0,) * tensor.dim()], tensor.detach()[(-1,) * tensor.dim()]
                if any(math.isnan(float(end)) for end in ends):
                    tensor.copy_(torch.nan_to_num(tensor, nan=0.0, posinf=math.inf, neginf=-math.inf))


def parameters_on_meta(make: Callable[[], nn.Module]) -> int | None:
    """Returns the number of parameters of a model made on the meta device, or None if it cannot be made there."""
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in make().parameters())
    except Exception as error:  # Some constructors compute with values. A real fault shows when the model is built.
        _log.info("the parameters cannot be counted without memory: %s", one_line(error))
        return None


def parameters_of(source: Source, make: Callable[[], nn.Module]) -> int:
    """Returns the number of parameters of the model that `make` makes, without touching their memory.

    Raises `SourceError` as `construct` does.
    """
    model = construct(source, SourceOptions(), make, SkippedInitialisation)
    return sum(parameter.numel() for parameter in model.parameters())
