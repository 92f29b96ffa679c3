"""Replaces random initial weights by quantiles of their distribution.

The weights are drawn anew from recipes afterwards (see `seeding`). The recipes use only the mean, deviation and range
of the initial values. Drawing random initial values takes most of the time of building a model and gives other bits
under other vector instructions. Quantiles are copied from a table and are the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from statistics import NormalDist
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

#: Quantiles in a tile: a prime, so that rows of a matrix do not repeat one another.
_TILE: Final = 4093
#: Elements from which a tensor is filled so.
_LEAST: Final = 1024


class QuantileInitialisation(TorchFunctionMode):
    """Makes `uniform_`, `normal_`, `rand`, `randn` and the functions of `torch.nn.init` return quantiles inside the
    block.

    Applies to tensors of 1024 elements or more without a generator of their own. The order of the quantiles differs
    from call to call. Other tensors are filled at random as usual.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        named: dict[str, Any] = dict(kwargs or {})
        if named.get("generator") is None:
            if func in _FILLS:
                tensor = args[0] if args else named["tensor"]
                if _suits(tensor):
                    return self._filled(tensor, _FILLS[func](*args, **_without(named, "generator")))
            elif func in _MADE:
                made: torch.Tensor = torch.empty(*args, **_without(named, "generator"))
                return self._filled(made, _MADE[func]()) if _suits(made) else func(*args, **named)
        return func(*args, **named)

    def _filled(self, tensor: torch.Tensor, tile: torch.Tensor) -> torch.Tensor:
        """Copies the tile into `tensor`, from an offset that moves with each call.

        A loop that draws until the values suit it must get other values each time.
        """
        self._calls += 1
        start = self._calls * 1009 % _TILE
        values = torch.cat([tile[start:], tile[:start]]).to(tensor.dtype)
        flat = tensor.detach().view(-1)
        whole = flat.numel() // _TILE * _TILE
        flat[:whole].view(-1, _TILE).copy_(values)
        flat[whole:].copy_(values[: flat.numel() - whole])
        return tensor


def _suits(tensor: Any) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.is_floating_point()
        and tensor.is_contiguous()
        and tensor.numel() >= _LEAST
    )


def _without(named: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in named.items() if key != name}


def _positions() -> list[int]:
    """Returns 0 … 4092 in a fixed shuffled order: fifth powers modulo the prime, a permutation since 5 does not
    divide 4092."""
    return [pow(position, 5, _TILE) for position in range(_TILE)]


@cache
def _uniform_tile() -> torch.Tensor:
    """Returns the midpoints of 4093 equal parts of [0, 1), shuffled; float64."""
    return torch.tensor([(position + 0.5) / _TILE for position in _positions()], dtype=torch.float64)


@cache
def _normal_tile() -> torch.Tensor:
    """Returns 4093 quantiles of the standard normal distribution, shuffled and scaled to a deviation of 1; float64."""
    normal = NormalDist()
    z = [normal.inv_cdf((position + 0.5) / _TILE) for position in _positions()]
    return torch.tensor(z, dtype=torch.float64) / math.sqrt(sum(one * one for one in z) / _TILE)


def _uniform(tensor: torch.Tensor, a: float = 0.0, b: float = 1.0, **bounds: float) -> torch.Tensor:
    low, high = bounds.get("from", a), bounds.get("to", b)
    return _uniform_tile() * (high - low) + low


def _normal(tensor: torch.Tensor, mean: float = 0.0, std: float = 1.0) -> torch.Tensor:
    return _normal_tile() * std + mean


def _kaiming_uniform(
    tensor: torch.Tensor, a: float = 0.0, mode: Any = "fan_in", nonlinearity: Any = "leaky_relu"
) -> torch.Tensor:
    fan = tensor.shape[1 if mode == "fan_in" else 0] * math.prod(tensor.shape[2:])
    bound = torch.nn.init.calculate_gain(nonlinearity, a) * math.sqrt(3.0 / fan)
    return _uniform(tensor, -bound, bound)


_FILLS: Final[Mapping[Any, Callable[..., torch.Tensor]]] = {
    torch.Tensor.uniform_: _uniform,
    torch.Tensor.normal_: _normal,
    torch.nn.init.uniform_: _uniform,
    torch.nn.init.normal_: _normal,
    torch.nn.init.kaiming_uniform_: _kaiming_uniform,
}
_MADE: Final[Mapping[Any, Callable[[], torch.Tensor]]] = {torch.rand: _uniform_tile, torch.randn: _normal_tile}


class SkippedInitialisation(TorchFunctionMode):
    """Makes functions that fill or scale a large tensor in place do nothing inside the block.

    For counting parameters: their memory is then reserved and never touched.
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        named: dict[str, Any] = dict(kwargs or {})
        if func in _IN_PLACE:
            tensor = args[0] if args else named["tensor"]
            if _suits(tensor) and not any(isinstance(arg, torch.Tensor) for arg in args[1:]):
                return tensor
        elif func in _MADE and named.get("generator") is None:
            return torch.empty(*args, **_without(named, "generator"))
        elif func is torch.Tensor.any and not named and len(args) == 1 and args[0].numel() >= _LEAST:
            # A loop that draws until no value is outside its bounds would never end: nothing is drawn.
            return torch.tensor(False)
        return func(*args, **named)


_IN_PLACE: Final = frozenset(
    [
        *_FILLS,
        torch.nn.init.constant_,
        *(
            getattr(torch.Tensor, f"{name}_")
            for name in ("fill", "zero", "erfinv", "mul", "div", "add", "sub", "clamp")
        ),
    ]
)
