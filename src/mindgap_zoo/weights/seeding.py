"""Draws seeded weights for models whose trained weights are not at hand.

The initial weights of a model library make degenerate networks. Residual branches are multiplied by factors of 0 or
1e-6, classifiers and biases start at 0, batch norms change nothing, and the signal dies or explodes over the depth.
Comparing platforms on such a network shows little. Every floating-point parameter is therefore drawn anew from a
recipe:

- A weight keeps the mean, the standard deviation (two digits) and the range of its initial values. Weights of linear
  layers and convolutions get a standard deviation of at least 0.5/√fan-in (1/√fan-in if they were constant).
- A constant vector gets spread: factors of norms and others ±20 % around their value, layer scales and gates (at most
  0.01) over 0.2 … 0.6, zero biases over ±0.1.
- Statistics of a batch norm follow the scale of its input in one forward pass of the seeded model, rounded to a power
  of two so that they are the same on every machine. Variances are spread over 0.5 … 1.5 of its square, means over ± a
  quarter of it.
- Scalars (temperatures, logit scales) keep their value; 0 becomes 0.3.
- Other buffers (masks, position tables, anchors) belong to the architecture and stay.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, cast

import torch
from torch import nn

from mindgap.aten.torch_private.modules import BatchNorm, Convolution, TransposedConvolution
from mindgap.graph import Constant, Recipe, Uniform
from mindgap.sources.program import Built
from mindgap.sources.source import Source, SourceError, SourceOptions, one_line
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of

_log = logging.getLogger(__name__)


def seed_weights(module: nn.Module, seed: int, registry: TensorRegistry, only: Container[str] | None = None) -> None:
    """Draws every floating-point parameter of `module` in place, shared ones once.

    `only`: the names of the parameters to draw; None for all.
    """
    seen: set[int] = set()
    with torch.no_grad():
        for path, owner in _parts(module):
            for leaf, weight in owner.named_parameters(recurse=False):
                if id(weight) in seen or not weight.is_floating_point() or not weight.numel() or weight.is_meta:
                    continue
                seen.add(id(weight))
                name = f"{path}.{leaf}" if path else leaf
                if only is not None and name not in only:
                    continue
                recipe = weight_recipe(weight.detach().float(), leaf, owner, seed_of(name, seed))
                if recipe is not None:
                    weight.copy_(_drawn(registry, recipe, weight))


def weight_recipe(weight: torch.Tensor, leaf: str, owner: nn.Module, seed: int) -> Recipe | None:
    """Returns the recipe for a parameter with these initial values, or None to leave it as it is.

    `leaf`: its name in `owner`, the module that holds it.
    """
    low, high = float(weight.min()), float(weight.max())
    if not math.isfinite(low) or not math.isfinite(high):
        return None
    if weight.numel() == 1:
        return Constant(0.3) if low == 0.0 else None
    mean, std = float(weight.mean()), float(weight.std(correction=0))
    fan_in = fan_in_of(weight, owner)
    if std <= 1e-6 * max(abs(mean), 1e-30):
        return _spread_constant(mean, leaf, fan_in, seed)
    if fan_in:
        std = max(std, 0.5 / math.sqrt(fan_in))
        return Uniform(seed, -_two_digits(std * math.sqrt(3)), _two_digits(std * math.sqrt(3)))
    half = std * math.sqrt(3)
    bottom, top = _two_digits(max(low, mean - half)), _two_digits(min(high, mean + half))
    return Uniform(seed, bottom, top) if bottom < top else None


def fan_in_of(weight: torch.Tensor, owner: nn.Module) -> int:
    """Returns the number of terms in each sum that a linear layer's or convolution's weight takes part in; 0 for
    others."""
    vector = weight.numel() == max(weight.shape, default=1)
    if vector or isinstance(owner, (nn.Embedding, nn.EmbeddingBag)):
        return 0
    if isinstance(owner, TransposedConvolution):
        return weight.shape[0] // owner.groups * math.prod(weight.shape[2:])
    if isinstance(owner, (nn.Linear, Convolution)):
        return math.prod(weight.shape[1:])
    return 0


def _spread_constant(value: float, leaf: str, fan_in: int, seed: int) -> Recipe:
    if fan_in and abs(value) <= 1e-2:
        half = _two_digits(math.sqrt(3 / fan_in))
        return Uniform(seed, -half, half)
    if value == 0.0 and "weight" not in leaf and "gamma" not in leaf:
        return Uniform(seed, -0.1, 0.1)
    if abs(value) <= 1e-2:
        return Uniform(seed, 0.2, 0.6)
    low, high = sorted((_two_digits(0.8 * value), _two_digits(1.2 * value)))
    return Uniform(seed, low, high)


def seed_statistics(module: nn.Module, run: Callable[[], Any], seed: int, registry: TensorRegistry) -> None:
    """Sets the running statistics of the batch norms of `module` to suit their inputs.

    `run` runs the module once. Each batch norm is set when its first input reaches it, before it normalises that
    input. If `run` fails on the way, the batch norms that were not reached get the statistics of a standard normal
    input.
    """
    norms = {norm: path for path, norm in _tracking(module)}
    if not norms:
        return

    def reached(norm: Any, given: tuple[Any, ...]) -> None:
        if norm in norms and given and isinstance(given[0], torch.Tensor):
            _set_statistics(norm, norms.pop(norm), _scale(given[0]), seed, registry)

    handles = [norm.register_forward_pre_hook(reached) for norm in norms]
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with torch.no_grad():
            run()
    except (ValueError, RuntimeError) as error:
        _log.info("statistics of some batch norms are defaults: the model raised %s", one_line(error))
    finally:
        for handle in handles:
            handle.remove()
        for part in training:
            part.training = True
    with torch.no_grad():
        for norm, path in norms.items():
            _set_statistics(norm, path, 1.0, seed, registry)


def _set_statistics(norm: Any, path: str, scale: float, seed: int, registry: TensorRegistry) -> None:
    """Sets statistics for an input whose root mean square is `scale`.

    The mean is small because it is drawn and is not the input's own. The square of the difference adds up in every
    layer; a large one would leave nothing in the output that depends on the input.
    """
    drawn_mean = Uniform(seed_of(f"{path}.running_mean", seed), -0.25 * scale, 0.25 * scale)
    drawn_var = Uniform(seed_of(f"{path}.running_var", seed), 0.5 * scale * scale, 1.5 * scale * scale)
    norm.running_mean.copy_(_drawn(registry, drawn_mean, norm.running_mean))
    norm.running_var.copy_(_drawn(registry, drawn_var, norm.running_var))
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.fill_(1)


def _scale(given: torch.Tensor) -> float:
    """Returns the root mean square as a power of two, at least 2⁻¹⁰."""
    square = float(given.detach().float().square().mean())
    return _power_of_two(max(math.sqrt(square), 2.0**-10)) if math.isfinite(square) else 1.0


def _tracking(module: nn.Module) -> Iterator[tuple[str, BatchNorm]]:
    for path, part in _parts(module):
        if isinstance(part, BatchNorm) and part.running_mean is not None and part.running_var is not None:
            yield path, part


def _parts(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    parts = cast("Iterator[tuple[str, nn.Module]]", module.named_modules())
    yield from parts


def _drawn(registry: TensorRegistry, recipe: Recipe, like: torch.Tensor) -> torch.Tensor:
    return registry.draw(recipe, str(like.dtype).removeprefix("torch."), tuple(like.shape))


def _power_of_two(value: float) -> float:
    return 2.0 ** round(math.log2(value))


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def finished(
    model: nn.Module,
    chosen: SourceOptions,
    registry: TensorRegistry,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] = {},
    fixed: Mapping[str, Any] = {},
    source: Source | None = None,
    seeded: bool = True,
) -> Built:
    """Returns a model with its arguments; where its weights are seeded, after a run that sets its statistics.

    `fixed`: arguments that its Python code decides by. `source`: what it raises is a `SourceError` of this source.
    """
    call = functools.partial(model, **fixed) if fixed else model

    def run() -> None:
        try:
            call(*args, **kwargs)
        except Exception as error:
            if source is None:
                raise
            raise SourceError(f"{source.text}: with {', '.join(kwargs)} it raised {one_line(error)}") from error

    if seeded:
        seed_statistics(model, run, chosen.seed, registry)
    model.train(chosen.train)
    return Built(call, args, dict(kwargs), registry)
