"""Runs a model on LiteRT as its users do: litert-torch converts it, and calls the interpreter."""

# pyright: basic, reportMissingImports=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

from typing import TYPE_CHECKING

import litert_torch
import numpy as np
import torch

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the converted model."""
    converted = litert_torch.convert(model, fresh())
    found = converted(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]
