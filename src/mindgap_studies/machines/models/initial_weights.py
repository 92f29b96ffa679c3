"""Initial weights that are bit for bit the same on every machine.

Each tensor is integers from a counter-based generator (`mindgap.graph.materialise`), multiplied once by a float: no
distribution of numpy or PyTorch, whose bits depend on the vector instructions of the processor.
"""

# pyright: reportUnknownMemberType=false
# (torch.from_numpy has no complete type)

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import nn

from mindgap.graph import Input, Integers, TensorSpec, contiguous_stride, materialise

#: `he`: uniform in ±√(6 / fan-in), for ReLU. `xavier`: uniform in ±√(6 / (fan-in + fan-out)), for sigmoid.
Scheme = Literal["he", "xavier"]
#: Weights are whole multiples of limit / 2¹⁵.
_STEPS: Final = 1 << 15


def initial_weights(module: nn.Module, scheme: Scheme, seed: int) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Returns the initial value of every parameter of 2 or 4 dimensions, by name, as float32.

    The others (biases, scales and shifts, running statistics) keep PyTorch's constants: 0 and 1.
    """
    found: dict[str, np.ndarray[Any, np.dtype[np.float32]]] = {}
    for number, (name, parameter) in enumerate(module.named_parameters()):
        shape = tuple(parameter.shape)
        if len(shape) > 1:
            found[name] = uniform(shape, limit(shape, scheme), seed * 1000 + number)
        elif name.endswith("bias"):
            found[name] = np.zeros(shape, np.float32)
    return found


def limit(shape: tuple[int, ...], scheme: Scheme) -> float:
    kernel = math.prod(shape[2:])
    fan_in, fan_out = shape[1] * kernel, shape[0] * kernel
    return math.sqrt(6.0 / (fan_in if scheme == "he" else fan_in + fan_out))


def uniform(shape: tuple[int, ...], limit: float, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Returns float32 uniform in [−limit, limit): integers times limit / 2¹⁵, in float64, rounded once."""
    spec = TensorSpec("int32", shape, contiguous_stride(shape))
    drawn = materialise(Input(spec, Integers(seed, -_STEPS, _STEPS)))
    return (drawn.astype(np.float64) * (limit / _STEPS)).astype(np.float32)


def load(module: nn.Module, weights: dict[str, np.ndarray[Any, np.dtype[np.float32]]]) -> None:
    state = module.state_dict()
    with torch.no_grad():
        for name, array in weights.items():
            state[name].copy_(torch.from_numpy(array))
