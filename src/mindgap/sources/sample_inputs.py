"""Generates the sample inputs of PyTorch's own test suite with random numbers from recipes.

The suite draws with PyTorch's generators, whose bits depend on the machine. The suite's own code still makes the
samples, so that a matrix meant to be positive definite is one. Each random call inside it is answered from a recipe. A
drawn tensor that was left alone is a recipe in the graph. A tensor computed from it (a triangle, a probability, a
clamped range) is stored with its bytes. A few samples come from matrix products or factorisations, whose last bits
differ between machines. They are rounded to 12 significant bits, which are the same on every machine except for rare
numbers at the edge of two.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import numpy as np
import torch

from mindgap.aten.tensors import to_numpy, torch_dtype_name
from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode
from mindgap.aten.torch_private.process_state import same_random_numbers, torch_seed
from mindgap.graph import Constant, GraphError, Recipe
from mindgap.graph_capture import CaptureError
from mindgap.graph_capture.random_operators import is_random, lower, needs_result, packet
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of

T = TypeVar("T")

#: Operators whose last bits depend on the machine: what samples are computed with, besides `linalg_*`.
_INEXACT: Final = frozenset({
    "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "geqrf", "lu_unpack", "cholesky_inverse", "native_layer_norm",
    "_softmax", "_log_softmax", "sum", "mean", "std", "var", "norm",
    "exp", "log", "log1p", "sqrt", "tanh", "sigmoid", "logit", "cos", "sin",
})  # fmt: skip
#: Significant bits kept of what they computed.
_BITS: Final = 12


class SampleDrawingMode(TorchDispatchMode):
    """Answers random calls from recipes. `inexact`: an operator ran whose last bits depend on the machine."""

    def __init__(self, registry: TensorRegistry, name: str, seed: int) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self._registry = registry
        self._name = name
        self._seed = seed
        self._count = 0
        self.inexact = False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not is_random(func, args, kwargs):
            self.inexact = self.inexact or packet(func) in _INEXACT or "linalg_" in packet(func)
            return func(*args, **kwargs)
        plain = {key: value for key, value in kwargs.items() if key != "generator"}
        try:
            like = func(*args, **plain) if needs_result(func) else None
            return lower(func, args, plain, like, self._draw)
        except (CaptureError, GraphError):
            self.inexact = True  # A distribution without a recipe: the generator's own numbers, rounded.
            return func(*args, **kwargs)

    def _draw(self, make: Any, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        self._count += 1
        recipe: Recipe = make(seed_of(f"{self._name} {self._count}", self._seed))
        return self._registry.draw(recipe, torch_dtype_name(dtype), shape)


def new_registry() -> TensorRegistry:
    """Returns a registry that is not empty, so that a graph captured with it keeps undrawn tensors inside itself."""
    registry = TensorRegistry()
    registry.draw(Constant(0.0), "float32", (1,))
    return registry


def draw_samples(
    make: Callable[[], Iterable[T]], name: str, seed: int, registry: TensorRegistry
) -> list[tuple[T, bool]]:
    """Returns the suite's samples, and for each whether its tensors need `round_inexact`."""
    mode = SampleDrawingMode(registry, name, seed)
    with same_random_numbers(), torch_seed(seed), warnings.catch_warnings(), mode:
        random.seed(seed)
        np.random.seed(seed)
        warnings.simplefilter("ignore")
        return [(sample, mode.inexact) for sample in make()]


def round_inexact(tensor: torch.Tensor, registry: TensorRegistry) -> torch.Tensor:
    """Rounds a strided floating-point tensor in place to `_BITS` significant bits. Leaves others and drawn ones as
    they are."""
    if tensor.layout != torch.strided or not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return tensor
    if registry.knows(to_numpy(tensor)):
        return tensor
    parts = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor.detach()
    mantissa, exponent = torch.frexp(parts.double())
    whole = torch.ldexp(torch.round(mantissa * 2**_BITS), exponent - _BITS).to(parts.dtype)
    parts.copy_(torch.where(torch.isfinite(parts), whole, parts))
    return tensor
