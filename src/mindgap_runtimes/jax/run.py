"""Runs a model on XLA's CPU client as JAX's users do with modules of PyTorch: torchax, then `jax.jit`."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import jax
import numpy as np
import torch

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh


class Names:
    """torchax 0.0.13 keys a table by overloads for named tensors, which PyTorch 2.13 lacks: any object will do."""

    packet = type(torch.ops.aten.add)
    original = packet.__getattr__

    def __getattr__(self, name):
        return object() if "imname" in name or "names" in name else Names.original(self, name)


Names.packet.__getattr__ = Names.__getattr__
try:
    import torchax

    torchax.default_env()
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)
Names.packet.__getattr__ = Names.original


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the compiled function."""
    torchax.default_env()
    weights, function = torchax.extract_jax(model)
    compiled, given = jax.jit(function), jax.tree.map(torchax.default_env().t2j_copy, fresh())
    found = compiled(weights, given)
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]
