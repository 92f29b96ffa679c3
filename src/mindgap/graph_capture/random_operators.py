"""Rewrites random operators as exact arithmetic on drawn tensors.

A drawn tensor is an input of the graph with a recipe. The capture and its check use the same rewriting. The capture
makes the drawn tensor an input; the check materialises it. The results can therefore be compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from mindgap.aten.operators import overload_name
from mindgap.aten.torch_private.pre_dispatch import call_decomposed
from mindgap.graph import Integers, Normal, Permutation, Recipe, Uniform
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.neutral_settings import portable_kernels
from mindgap.graph_capture.origin import current_line

#: (a recipe for a seed, shape, dtype) -> the drawn tensor.
Draw = Callable[[Callable[[int], Recipe], tuple[int, ...], torch.dtype], torch.Tensor]
Bound = Mapping[str, Any]

_SEEDED: Final = torch.Tag.nondeterministic_seeded
_DROPOUTS: Final = frozenset(
    f"{name}{end}"
    for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
    for end in ("", "_")
)
_RECURRENT: Final = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})


def bind(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call by name, defaults included."""
    bound: dict[str, Any] = {}
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            bound[argument.name] = args[position]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            bound[argument.name] = argument.default_value
    return bound


def packet(func: Any) -> str:
    """Returns `add` for `aten.add.Tensor`."""
    return overload_name(func).split(".")[1]


def is_random(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether this call, with these arguments, draws random numbers."""
    if _SEEDED not in func.tags:
        return False
    name, bound = packet(func), bind(func, args, kwargs)
    if name in _DROPOUTS:
        return bool(bound["train"]) and bound["p"] > 0
    if name in _RECURRENT:
        return bool(bound["train"]) and bound["dropout"] > 0 and bound["num_layers"] > 1
    if name == "native_dropout":
        return bound["train"] is not False and bound["p"] > 0
    if "dropout_p" in bound:
        return bound["dropout_p"] > 0
    return bool(bound.get("training", True))


def lower(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], like: torch.Tensor | None, draw: Draw) -> Any:
    """Returns the result of a random call, computed from drawn tensors.

    `like`: the result of the operator itself, used for shape and dtype only (None if the operands give these). Raises
    `CaptureError` for a distribution without an exact counterpart.
    """
    name = packet(func)
    bound = bind(func, args, kwargs)
    if name in _DROPOUTS or name in _RECURRENT:
        with portable_kernels():
            return call_decomposed(func, *args, **kwargs)
    if name in _RULES and not overload_name(func).endswith("out"):
        return _RULES[name](bound, like, draw)
    raise CaptureError(f"{overload_name(func)} draws random numbers that no recipe can reproduce", current_line())


def needs_result(func: Any) -> bool:
    """Whether `lower` needs the operator's own result, for its shape and dtype."""
    return packet(func) in _FACTORIES


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _floats(tensor: torch.Tensor) -> torch.dtype:
    if tensor.dtype.is_complex:
        raise CaptureError("complex random numbers have no recipe", current_line())
    return tensor.dtype


def _rand(_: Bound, like: Any, draw: Draw) -> Any:
    return draw(Uniform, _shape(like), _floats(like))


def _randn(_: Bound, like: Any, draw: Draw) -> Any:
    return draw(Normal, _shape(like), _floats(like))


def _randint(bound: Bound, like: Any, draw: Draw) -> Any:
    low, high = int(bound.get("low", 0)), int(bound["high"])
    if like.dtype.is_floating_point:
        return draw(lambda seed: Integers(seed, low, high), _shape(like), torch.int64).to(like.dtype)
    return draw(lambda seed: Integers(seed, low, high), _shape(like), like.dtype)


def _randperm(_: Bound, like: Any, draw: Draw) -> Any:
    drawn = draw(Permutation, _shape(like), torch.int64)
    return drawn if like.dtype == torch.int64 else drawn.to(like.dtype)


def _normal(bound: Bound, like: Any, draw: Draw) -> Any:
    drawn = draw(Normal, _shape(like), _floats(like))
    return torch.add(torch.mul(drawn, bound["std"]), bound["mean"])


def _uniform_(bound: Bound, _: Any, draw: Draw) -> Any:
    target, low, high = bound["self"], float(bound["from"]), float(bound["to"])
    return target.copy_(draw(lambda seed: Uniform(seed, low, high), _shape(target), _floats(target)))


def _normal_(bound: Bound, _: Any, draw: Draw) -> Any:
    target, mean, std = bound["self"], float(bound["mean"]), float(bound["std"])
    return target.copy_(draw(lambda seed: Normal(seed, mean, std), _shape(target), _floats(target)))


def _log_normal_(bound: Bound, _: Any, draw: Draw) -> Any:
    target, mean, std = bound["self"], float(bound["mean"]), float(bound["std"])
    return target.copy_(torch.exp(draw(lambda seed: Normal(seed, mean, std), _shape(target), _floats(target))))


def _exponential_(bound: Bound, _: Any, draw: Draw) -> Any:
    target = bound["self"]
    drawn = draw(Uniform, _shape(target), torch.float32)
    return target.copy_(torch.mul(torch.log1p(torch.neg(drawn)), -1.0 / float(bound["lambd"])))


def _random_(bound: Bound, _: Any, draw: Draw) -> Any:
    target = bound["self"]
    low, high = int(bound.get("from", 0) or 0), bound.get("to")
    if high is None:
        # The whole range of the dtype; of a float, the integers that it holds exactly.
        whole = {torch.float16: 2**11, torch.bfloat16: 2**8, torch.float32: 2**24, torch.float64: 2**53, torch.bool: 1}
        high = (whole[target.dtype] if target.dtype in whole else torch.iinfo(target.dtype).max) + 1
    top = min(int(high), 2**63 - 1)
    drawn = draw(lambda seed: Integers(seed, low, top), _shape(target), torch.int64)
    return target.copy_(drawn)


def _bernoulli(bound: Bound, _: Any, draw: Draw) -> Any:
    source = bound["self"]
    chance = bound.get("p", source)
    kept = torch.lt(draw(Uniform, _shape(source), torch.float32), chance)
    return kept.to(source.dtype)


def _bernoulli_(bound: Bound, _: Any, draw: Draw) -> Any:
    target = bound["self"]
    return target.copy_(torch.lt(draw(Uniform, _shape(target), torch.float32), bound["p"]))


def _native_dropout(bound: Bound, _: Any, draw: Draw) -> Any:
    source, chance = bound["input"], float(bound["p"])
    kept = torch.lt(draw(Uniform, _shape(source), torch.float32), 1.0 - chance)
    scale = 0.0 if chance == 1.0 else 1.0 / (1.0 - chance)
    return torch.mul(torch.mul(source, kept), scale), kept


def _multinomial(bound: Bound, _: Any, draw: Draw) -> Any:
    weights, count = bound["self"], int(bound["num_samples"])
    if bound["replacement"]:
        total = torch.cumsum(weights, -1)
        drawn = draw(Uniform, (*_shape(weights)[:-1], count), torch.float32).to(weights.dtype)
        return torch.searchsorted(total, torch.mul(drawn, total[..., -1:]), right=True)
    # The largest weight/exponential ratios are a draw without replacement (exponential races).
    drawn = draw(Uniform, _shape(weights), torch.float32)
    race = torch.neg(torch.log1p(torch.neg(drawn)))
    return torch.topk(torch.div(weights, race), count)[1]


def _rrelu(bound: Bound, _: Any, draw: Draw) -> Any:
    source, low, high = bound["self"], float(bound["lower"]), float(bound["upper"])
    slope = draw(lambda seed: Uniform(seed, low, high), _shape(source), _floats(source))
    return torch.where(torch.le(source, 0), torch.mul(source, slope), source)


def _rrelu_(bound: Bound, like: Any, draw: Draw) -> Any:
    return bound["self"].copy_(_rrelu(bound, like, draw))


def _rrelu_with_noise(bound: Bound, _: Any, draw: Draw) -> Any:
    source, low, high = bound["self"], float(bound["lower"]), float(bound["upper"])
    slope = draw(lambda seed: Uniform(seed, low, high), _shape(source), _floats(source))
    noise = bound["noise"].copy_(torch.where(torch.le(source, 0), slope, 1.0))
    return torch.mul(source, noise)


def _rrelu_with_noise_(bound: Bound, like: Any, draw: Draw) -> Any:
    return bound["self"].copy_(_rrelu_with_noise(bound, like, draw))


def _attention(bound: Bound, _: Any, __: Draw) -> Any:
    parts = torch.ops.aten._scaled_dot_product_attention_math.default
    with portable_kernels():
        return call_decomposed(
            parts,
            bound["query"],
            bound["key"],
            bound["value"],
            bound["attn_mask"],
            bound["dropout_p"],
            bound["is_causal"],
            None,
            scale=bound["scale"],
            enable_gqa=bound["enable_gqa"],
        )[0]


_FACTORIES: Final = frozenset(
    {"rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "normal"}
)
_RULES: Final[dict[str, Callable[[Bound, Any, Draw], Any]]] = {
    "rand": _rand,
    "rand_like": _rand,
    "randn": _randn,
    "randn_like": _randn,
    "randint": _randint,
    "randint_like": _randint,
    "randperm": _randperm,
    "normal": _normal,
    "uniform_": _uniform_,
    "normal_": _normal_,
    "log_normal_": _log_normal_,
    "exponential_": _exponential_,
    "random_": _random_,
    "bernoulli": _bernoulli,
    "bernoulli_": _bernoulli_,
    "native_dropout": _native_dropout,
    "multinomial": _multinomial,
    "rrelu": _rrelu,
    "rrelu_": _rrelu_,
    "rrelu_with_noise": _rrelu_with_noise,
    "rrelu_with_noise_": _rrelu_with_noise_,
    "scaled_dot_product_attention": _attention,
}
