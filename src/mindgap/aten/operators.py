"""Resolves operator names to callables, reads their schemas, and converts the arguments of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch

from mindgap.aten.torch_private.overloads import has_kernel_for
from mindgap.graph import Arg, Device, DType, Layout, MemoryFormat, Node, Ref, UnknownOperator

_CPU = torch.device("cpu")


def attribute(arg: Arg, device: torch.device = _CPU) -> Any:
    """Converts a dtype, layout, memory format or device; returns any other argument as it is."""
    if isinstance(arg, (DType, MemoryFormat, Layout)):
        return getattr(torch, arg.name)
    return device if isinstance(arg, Device) else arg


def bind(arg: Arg, values: Sequence[Any] | Callable[[int], Any], device: torch.device = _CPU) -> Any:
    """Converts an argument, with references replaced by `values`: a sequence, or a function of the index."""
    if isinstance(arg, Ref):
        return values(arg.index) if callable(values) else values[arg.index]
    if isinstance(arg, tuple):
        return [bind(item, values, device) for item in arg]
    return attribute(arg, device)


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """Facts from the schema of an overload.

    `mutates`: positions and names of arguments written to; `views`: positions of arguments that a
    result may alias without being written to; `returns`: number of declared results;
    `takes_device`: it has a `device` argument.
    """

    mutates: frozenset[int | str]
    views: frozenset[int | str]
    returns: int
    takes_device: bool
    arguments: tuple[str, ...]


def packet_of(op: str) -> str:
    """Returns the packet's name: `aten.add.Tensor` -> `add`."""
    return op.split(".")[1]


@cache
def overload(name: str) -> Any:
    """Resolves `aten.add.Tensor` to torch.ops.aten.add.Tensor. Raises `UnknownOperator`."""
    try:
        namespace, packet, variant = name.split(".")
        return getattr(getattr(getattr(torch.ops, namespace), packet), variant)
    except (ValueError, AttributeError, RuntimeError):
        raise UnknownOperator(
            name, f"operator {name!r} is not in torch {torch.__version__}: is it a graph of another version?"
        ) from None


def overload_name(function: Any) -> str:
    """Returns the name of an overload; inverts `overload`."""
    return str(function)


#: They may return their operand itself, as dropout does in evaluation, and neither schema nor tag shows it.
_MAY_RETURN_OPERAND: Final = frozenset({"aten.feature_dropout.default", "aten.feature_alpha_dropout.default"})


#: Composite operators, of which parts may be views, that always make new tensors.
_MAKE_NEW: Final = frozenset(
    {"linear", "conv1d", "conv2d", "conv3d", "layer_norm", "group_norm", "softmax", "log_softmax", "gelu", "silu",
     "scaled_dot_product_attention", "max_pool2d", "cross_entropy_loss"}
)  # fmt: skip


def callable_of(node: Node) -> Any:
    """Returns the overload that a node calls.

    Raises `UnknownOperator` where this PyTorch lacks it, or where its schema has other arguments than the node gives:
    another version's.
    """
    known = facts(node.op).arguments
    unknown = [name for name, _ in node.kwargs if name not in known]
    if unknown or len(node.args) > len(known):
        given = f"no argument {unknown[0]!r}" if unknown else f"{len(known)} arguments, not {len(node.args)}"
        raise UnknownOperator(
            node.op, f"operator {node.op!r} of torch {torch.__version__} takes {given}: its schema has changed"
        )
    return overload(node.op)


@cache
def facts(name: str) -> SchemaFacts:
    """Reads the schema of an overload as `SchemaFacts`. Raises `UnknownOperator`."""
    schema = overload(name)._schema
    mutates: set[int | str] = set()
    views: set[int | str] = set()
    if torch.Tag.maybe_aliasing_or_mutating in overload(name).tags or name in _MAY_RETURN_OPERAND:
        views.update((0, schema.arguments[0].name))
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is None:
            continue
        (mutates if argument.alias_info.is_write else views).update((position, argument.name))
    return SchemaFacts(
        frozenset(mutates),
        frozenset(views),
        len(schema.returns),
        any(a.name == "device" for a in schema.arguments),
        tuple(a.name for a in schema.arguments),
    )


def is_composite(function: Any) -> bool:
    """Returns whether the operator is defined by calls of others."""
    return has_kernel_for(function.name(), "CompositeImplicitAutograd")


def is_inplace(name: str) -> bool:
    """Returns whether the operator writes to an operand."""
    return bool(facts(name).mutates)


@cache
def makes_new(op: str) -> bool:
    """Returns whether its results are always new tensors and it writes to none."""
    known, packet = facts(op), op.split(".")[1]
    if known.mutates or known.views or "unsafe" in packet:
        return False
    return packet in _MAKE_NEW or not is_composite(overload(op))


#: Packets with `_backward` in their name that a public forward function calls: `torch.istft` calls `unfold_backward`.
#: A test in tests/mindgap/aten measures them on PyTorch's operator samples.
CALLED_FORWARD: Final = frozenset({"unfold_backward"})


def is_gradient_operator(op: str) -> bool:
    """Returns whether no public forward function of PyTorch calls the operator (`aten.tanh_backward.default`)."""
    packet = packet_of(op)
    return "_backward" in packet and packet not in CALLED_FORWARD
