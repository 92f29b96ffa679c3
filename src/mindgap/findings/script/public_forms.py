"""Lists the calls of public functions that may run an operator: by name, by parameters, by special rules.

A form is a guess. `public_calls` runs it and compares what it runs with what the operator runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, cast

import torch

from mindgap.aten.operators import facts, packet_of
from mindgap.findings.script.public_rules import Form, bound, special_forms
from mindgap.graph import Arg, Graph, Node, Ref

#: Where public functions are: those that validate most come first.
_NAMESPACES: Final = ("torch.nn.functional", "torch", "torch.linalg", "torch.fft", "torch.special", "torch.Tensor")
#: Prefix of a packet -> the namespace to look in first.
_BY_PREFIX: Final = {"linalg_": "torch.linalg", "fft_": "torch.fft", "special_": "torch.special"}
_PREFIXES: Final = ("_linalg_", "linalg_", "fft_", "special_", "native_", "_")
#: Functions in `torch` without documentation that validate less than their namesakes, or belong to one device.
_PRIVATE: Final = (
    "native_", "cudnn_", "miopen_", "mkldnn_", "fbgemm_", "quantized_", "convolution", "grid_sampler", "batch_norm",
    "layer_norm", "group_norm", "instance_norm", "embedding", "constant_pad_nd", "max_pool", "rrelu_with_noise",
    "affine_grid_generator", "split_with_sizes", "unsafe_split",
)  # fmt: skip
#: Functions that `torch.nn.functional` marks as replaced by those in `torch`.
_REPLACED: Final = frozenset({"tanh", "sigmoid"})
#: Packet -> names of functions that call it under another name.
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "_native_batch_norm_legit": ("batch_norm",),
    "_native_batch_norm_legit_no_training": ("batch_norm",),
    "_native_batch_norm_legit_functional": ("batch_norm",),
    "_batch_norm_with_update": ("batch_norm",),
    "_batch_norm_with_update_functional": ("batch_norm",),
    "_batch_norm_no_update": ("batch_norm",),
    "_batch_norm_impl_index": ("batch_norm",),
    "_fused_rms_norm": ("rms_norm",),
    "max_pool1d_with_indices": ("max_pool1d",),
    "max_pool2d_with_indices": ("max_pool2d",),
    "_lu_with_info": ("lu",),
    "max_pool3d_with_indices": ("max_pool3d",),
    "nll_loss_forward": ("nll_loss",),
    "nll_loss2d_forward": ("nll_loss",),
    "nll_loss2d": ("nll_loss",),
    "nll_loss_nd": ("nll_loss",),
    "multilabel_margin_loss_forward": ("multilabel_margin_loss",),
    "log_sigmoid": ("logsigmoid",),
    "log_sigmoid_forward": ("logsigmoid",),
    "im2col": ("unfold",),
    "col2im": ("fold",),
    "grid_sampler": ("grid_sample",),
    "grid_sampler_2d": ("grid_sample",),
    "grid_sampler_3d": ("grid_sample",),
    "affine_grid_generator": ("affine_grid",),
    "rrelu_with_noise": ("rrelu",),
    "_prelu_kernel": ("prelu",),
    "_cdist_forward": ("cdist",),
    "_embedding_bag_forward_only": ("embedding_bag",),
    "_reshape_alias": ("reshape",),
    "_unsafe_view": ("reshape",),
    "_unsafe_index_put": ("index_put",),
    "_index_put_impl_": ("index_put_",),
    "split_with_sizes": ("split",),
    "unsafe_split_with_sizes": ("split",),
    "_unique2": ("unique",),
    "unique_dim": ("unique",),
    "_weight_norm_interface": ("_weight_norm",),
    "_fft_r2c": ("rfftn", "fftn"),
    "_fft_c2c": ("fftn", "ifftn"),
    "_fft_c2r": ("irfftn",),
}  # fmt: skip
#: Parameter of a public function -> names that the operator's schema may have for it.
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "input": ("input", "self", "indices", "x", "A"),
    "num_groups": ("group", "num_groups"),
    "query": ("query",),
    "A": ("A", "self", "input"),
    "B": ("B", "other"),
    "theta": ("theta", "self"),
    "attn_mask": ("attn_mask", "attn_bias"),
    "mode": ("mode", "interpolation_mode"),
    "tensor": ("tensor", "self"),
    "split_size_or_sections": ("split_size", "split_sizes"),
}
#: Argument of a schema that is a number -> the words of the public function.
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "reduction": ("none", "mean", "sum"),
    "interpolation_mode": ("bilinear", "nearest", "bicubic"),
    "padding_mode": ("zeros", "border", "reflection"),
}
_BAG_MODES: Final = ("sum", "mean", "max")
#: Packet -> arguments of the public function that its schema lacks.
_FIXED: Final[Mapping[str, Mapping[str, Arg]]] = {
    "_batch_norm_with_update": {"training": True},
    "_batch_norm_with_update_functional": {"training": True},
    "_lu_with_info": {"get_infos": True},
}
_CONV: Final = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_CONV_TRANSPOSED: Final = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
#: Parameters of functions of `torch.nn.functional` whose signature Python cannot read, or is that of a dispatcher.
_SIGNATURES: Final[Mapping[str, tuple[str, ...]]] = {
    **{f"conv{n}d": _CONV for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _CONV_TRANSPOSED for n in (1, 2, 3)},
    **{f"max_pool{n}d": ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode") for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": ("input", "output_size") for n in (1, 2, 3)},
    **{f"fractional_max_pool{n}d": ("input", "kernel_size", "output_size") for n in (2, 3)},
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale"),
}
#: For a default: the parameter has none; it is unknown.
_REQUIRED: Final = object()
_UNKNOWN: Final = object()
#: Arguments that say where a result is: a public function takes the CPU by itself.
_PLACES: Final = frozenset({"device", "layout", "pin_memory"})
#: Arguments that public functions take by name only.
_BY_NAME: Final = frozenset({"alpha", "beta"})
#: Trailing arguments that may be left out: internal switches such as `half_to_float`.
_MOST_DROPPED: Final = 3


def forms(graph: Graph, node: Node, slots_read: frozenset[int]) -> Iterator[Form]:
    """Yields the calls that may run the node, those of the most validating functions first.

    `slots_read`: the result slots that something reads.
    """
    packet = packet_of(node.op)
    given = bound(node)
    yield from special_forms(graph, node)
    for name, function in _functions(packet, graph, given):
        if name.startswith(("torch.nn.functional.", "torch.")) and not name.startswith("torch.Tensor."):
            yield from _by_parameters(name, function, packet, given, slots_read)
    keywords = tuple((name, arg) for name, arg in node.kwargs if name not in _PLACES)
    count = len(node.args)
    named = next((place for place, name in enumerate(facts(node.op).arguments[:count]) if name in _BY_NAME), count)
    for name, function in _functions(packet, graph, given):
        if named < count:
            rest = tuple(zip(facts(node.op).arguments[named:count], node.args[named:], strict=True))
            yield Form(name, function, node.args[:named], (*rest, *keywords))
        for taken in range(count, max(count - _MOST_DROPPED, 0) - (not count), -1):
            yield Form(name, function, node.args[:taken], keywords)


def functional_forms(node: Node) -> Iterator[Form]:
    """Yields calls of functions that compute what an operator writes to its operand: `tanh` for `tanh_`."""
    packet = packet_of(node.op)
    if packet.endswith("_"):
        for name, function in _named(packet.removesuffix("_")):
            yield Form(name, function, node.args, node.kwargs)


def _functions(packet: str, graph: Graph, given: Mapping[str, Arg]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yields public functions by names that they may have."""
    names = [packet, packet.removesuffix("_loss")]
    names += [packet.removeprefix(prefix) for prefix in _PREFIXES if packet.startswith(prefix)]
    names += _OTHER_NAMES.get(packet, ())
    if packet.endswith("_") and not packet.endswith("__"):
        names.append(packet.removesuffix("_"))
    if packet in ("convolution", "_convolution"):
        names.append(_convolution_name(graph, given))
    if packet.startswith("_scaled_dot_product"):
        names.append("scaled_dot_product_attention")
    first = next((space for prefix, space in _BY_PREFIX.items() if packet.lstrip("_").startswith(prefix)), "")
    for name in dict.fromkeys(names):
        yield from sorted(_named(name), key=lambda each: not (first and each[0].startswith(first)))


@cache
def _named(name: str) -> tuple[tuple[str, Callable[..., Any]], ...]:
    """Returns the public functions of this name in all namespaces."""
    named: list[tuple[str, Callable[..., Any]]] = []
    for namespace in _NAMESPACES:
        holder: Any = torch
        for part in namespace.split(".")[1:]:
            holder = getattr(holder, part)
        function = getattr(holder, name, None)
        if not callable(function) or name.startswith("_") or name.endswith("_with_indices"):
            continue
        if namespace == "torch.nn.functional" and (name in _REPLACED or not function.__doc__):
            continue
        private = name.startswith(_PRIVATE) or name.endswith("_")
        if namespace in ("torch", "torch.Tensor") and not function.__doc__ and private:
            continue
        named.append((f"{namespace}.{name}", cast("Callable[..., Any]", function)))
    return tuple(named)


def _convolution_name(graph: Graph, given: Mapping[str, Arg]) -> str:
    weight = given.get("weight")
    spec = graph.values[weight.index] if isinstance(weight, Ref) else None
    rank = 0 if spec is None else len(spec.shape) - 2
    return f"conv_transpose{rank}d" if given.get("transposed") else f"conv{rank}d"


def _by_parameters(
    name: str, function: Callable[..., Any], packet: str, given: Mapping[str, Arg], slots_read: frozenset[int]
) -> Iterator[Form]:
    """Yields the call that passes the operator's arguments by the names that the function has for them."""
    short = name.rsplit(".", 1)[1]
    parameters = _parameters(short, function)
    if parameters is None:
        return
    keywords: dict[str, Arg] = {}
    for parameter, default in parameters:
        value = _value_of(parameter, short, packet, given)
        if value is None and default is _REQUIRED:
            keywords[parameter] = None
        elif value is not None and (isinstance(value[0], Ref) or repr(value[0]) != repr(default)):
            keywords[parameter] = value[0]
    if short in ("max_pool1d", "max_pool2d", "max_pool3d") or "_max_pool" in short:
        if 1 in slots_read:
            keywords["return_indices"] = True
        if "random_samples" in given:
            keywords["_random_samples"] = given["random_samples"]
    tensors: list[Arg] = []
    for parameter, _ in parameters:  # operands stand by position as far as they lead
        if parameter not in keywords or not (isinstance(keywords[parameter], Ref) or not tensors):
            break
        tensors.append(keywords.pop(parameter))
    if tensors:
        strict = name.startswith("torch.nn.functional.")
        yield Form(name, function, tuple(tensors), tuple(keywords.items()), strict)


@cache
def _parameters(short: str, function: Callable[..., Any]) -> tuple[tuple[str, Any], ...] | None:
    """Returns the parameters of a function in Python, each with its default."""
    if short in _SIGNATURES:
        return tuple((name, _UNKNOWN) for name in _SIGNATURES[short])
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters):
        return None
    return tuple((each.name, _REQUIRED if each.default is each.empty else each.default) for each in parameters)


def _value_of(parameter: str, function: str, packet: str, given: Mapping[str, Arg]) -> tuple[Arg] | None:
    """Returns the argument for a parameter, in a tuple; None where the operator has none."""
    if parameter == "inplace" and packet.endswith("_"):
        return (True,)
    if parameter in _FIXED.get(packet, {}):
        return (_FIXED[packet][parameter],)
    if parameter == "center" and parameter not in given:
        return (False,)  # the schema of an older `stft` lacks it
    for name in _PARAMETERS.get(parameter, (parameter,)):
        if name not in given:
            continue
        value = given[name]
        if isinstance(value, int) and not isinstance(value, bool):
            words = _BAG_MODES if function == "embedding_bag" and name == "mode" else _WORDS.get(name)
            if words is not None:
                return (words[value],) if 0 <= value < len(words) else (value,)
            if name == "padding_idx" and value == -1:
                return None  # -1 stands for none in the schema, and for the last row in the function
        return (value,)
    return None
