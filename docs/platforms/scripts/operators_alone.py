"""Operators alone, as sources: `mindgap diff $(python docs/platforms/scripts/operators_alone.py) -p PLATFORM`.

Each is a function of this file that returns a module and a float32 operand of 4 × 300 random numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional as F

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add": lambda x: x + x.flip(0),
    "mul": lambda x: x * 1.7,
    "div": lambda x: 1 / (x.abs() + 1),
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: (x.abs() + 0.01).rsqrt(),
    "exp": torch.exp,
    "log": lambda x: (x.abs() + 0.1).log(),
    "pow": lambda x: x.abs() ** 1.5,
    "power_of_2": lambda x: 2.0**x,
    "sin": torch.sin,
    "cos": torch.cos,
    "atan": torch.atan,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "floor": lambda x: torch.floor(x * 10),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "mish": F.mish,
    "elu": F.elu,
    "softplus": F.softplus,
    "hardswish": F.hardswish,
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "amax": lambda x: x.amax(-1),
    "argmax": lambda x: x.argmax(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "sort": lambda x: x.sort(-1).values,
    "topk": lambda x: x.topk(5).values,
    "matmul": lambda x: x @ x.T,
    "matrix_vector": lambda x: x @ x[0],
    "conv2d": lambda x: F.conv2d(x.reshape(1, 4, 15, 20), torch.linspace(-1, 1, 288).reshape(8, 4, 3, 3)),
    "avg_pool2d": lambda x: F.avg_pool2d(x.reshape(1, 4, 15, 20), 3),
    "layer_norm": lambda x: F.layer_norm(x, (300,)),
    "rms_norm": lambda x: F.rms_norm(x, (300,)),
    "group_norm": lambda x: F.group_norm(x.reshape(4, 30, 10), 3),
    "instance_norm": lambda x: F.instance_norm(x.reshape(4, 30, 10)),
    "overflow_of_exp": lambda x: torch.exp(x.abs() * 100),
    "relu_of_nan": lambda x: torch.relu(x / (x > 0)),
    "divide_zeros": lambda x: (x > 9).float() / (x > 9).float(),
}


class Alone(torch.nn.Module):
    """One function of `FUNCTIONS`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32[4, 300] -> the function's result."""
        return FUNCTIONS[self.name](x)


def _source(name: str) -> Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor]]]:
    return lambda: (Alone(name), (torch.randn(4, 300, generator=torch.Generator().manual_seed(0)),))


globals().update({f"op_{name}": _source(name) for name in FUNCTIONS})

if __name__ == "__main__":
    print(*(f"{__file__}:op_{name}" for name in FUNCTIONS))
