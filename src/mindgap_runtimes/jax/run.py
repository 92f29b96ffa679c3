"""Runs a model on XLA's CPU client as JAX's users do with modules of PyTorch: torchax, then `jax.jit`."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import jax
import numpy as np
import torch

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh


packet = type(torch.ops.aten.add)  # torchax 0.0.13 names overloads that PyTorch 2.13 lacks: any object will do
original = packet.__getattr__
packet.__getattr__ = lambda self, name: object() if "imname" in name or "names" in name else original(self, name)
torchax = importlib.import_module("torchax")
loaded, packet.__getattr__ = torchax.default_env(), original


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the compiled function."""
    weights, function = torchax.extract_jax(model)
    compiled, given = jax.jit(function), jax.tree.map(loaded.t2j_copy, fresh())
    found = compiled(weights, given)
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]
