"""Maps in-place operators to functional ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import torch

from mindgap.aten.operators import facts, overload
from mindgap.graph import Arg, DType, GraphError, Ref, UnknownOperator

if TYPE_CHECKING:
    from mindgap.aten.functional import Builder

Emit = Callable[["Builder", list[Arg], dict[str, Arg]], list[int]]


@dataclass(frozen=True)
class Counterpart:
    """The functional form of an in-place call. `emit` appends it; its last results are the written operands' contents.

    `dropped`: keyword arguments that only say where to write. `op`: the operator's name where it is a single one.
    """

    emit: Emit
    dropped: frozenset[str] = frozenset()
    op: str = ""


def is_layout_change(op: str) -> bool:
    """Returns whether the operator changes shape or strides of its operand in place, and no element."""
    return torch.Tag.inplace_view in overload(op).tags


@cache
def counterpart(op: str) -> Counterpart:
    """Returns the functional counterpart of an in-place overload. Raises `GraphError` if there is none."""
    if op in _SPECIAL:
        return Counterpart(_SPECIAL[op])
    namespace, packet, variant = op.split(".")
    if packet in _PYTHON:
        name = f"{namespace}.{_PYTHON[packet]}.{variant if variant == 'Tensor' else _scalar(packet)}"
        return Counterpart(_same_arguments(name), op=name)
    if packet in ("resize_", "resize_as_", "set_", "as_strided_"):
        raise GraphError(f"{op} has no functional form: it changes which memory a tensor has")
    # PyTorch has two ways to name them: `relu_` and `relu`, `_batch_norm_with_update` and `…_functional`.
    other = packet.removesuffix("_") if packet.endswith("_") else f"{packet}_functional"
    name = _alike(op, namespace, other, variant)
    if name is not None:
        return Counterpart(_same_arguments(name), op=name)
    match = _without_out(op, namespace, packet)
    if match is not None:
        return match
    raise GraphError(f"{op} writes to its operand, and no functional counterpart of it is known")


def _scalar(packet: str) -> str:
    return "Tensor_Scalar" if "shift" in packet else "Scalar"


def _same_arguments(name: str) -> Emit:
    return lambda builder, args, kwargs: builder.emit(name, *args, **kwargs)


def _without_out(op: str, namespace: str, packet: str) -> Counterpart | None:
    """Finds the overload with the same arguments except those written to: `add.out` -> `add.Tensor`."""
    known = facts(op)
    written = frozenset(a for a in known.mutates if isinstance(a, str))
    rest = tuple(a for a in known.arguments if a not in written)
    for variant in getattr(getattr(torch.ops, namespace), packet).overloads():
        name = f"{namespace}.{packet}.{variant}"
        if facts(name).arguments == rest and not facts(name).mutates:
            return Counterpart(_same_arguments(name), written, name)
    return None


def _alike(op: str, namespace: str, packet: str, variant: str) -> str | None:
    """Finds the functional overload with the arguments of `op`: usually that of the same name, but `pow_.Scalar` is
    `pow.Tensor_Scalar`, since `pow.Scalar` has the number first."""
    wanted = _types(op)
    try:
        others = list(getattr(getattr(torch.ops, namespace), packet).overloads())
    except AttributeError:
        return None
    for name in (f"{namespace}.{packet}.{v}" for v in dict.fromkeys([variant, *others])):
        try:
            if not facts(name).mutates and _types(name) == wanted:
                return name
        except UnknownOperator:
            continue
    return None


def _types(op: str) -> list[str]:
    """Returns the types of an overload's arguments, in order."""
    return [str(argument.type) for argument in overload(op)._schema.arguments]


def _number(arg: Arg) -> int:
    assert isinstance(arg, Ref)
    return arg.index


def _copy(builder: Builder, args: list[Arg], _: dict[str, Arg]) -> list[int]:
    return [_number(args[1])]  # cast and spread by the caller


def _zero(builder: Builder, args: list[Arg], _: dict[str, Arg]) -> list[int]:
    return builder.emit("aten.zeros_like.default", args[0])


def _fill(builder: Builder, args: list[Arg], _: dict[str, Arg]) -> list[int]:
    spec = builder.spec(_number(args[0]))
    return builder.emit("aten.full_like.default", args[0], args[1], dtype=DType(spec.dtype))


def _polygamma(builder: Builder, args: list[Arg], _: dict[str, Arg]) -> list[int]:
    return builder.emit("aten.polygamma.default", args[1], args[0])  # the order of the derivative comes first


#: What Python's `|=` and its kin are called.
_PYTHON: Final = {
    "__ior__": "bitwise_or",
    "__iand__": "bitwise_and",
    "__ixor__": "bitwise_xor",
    "__ilshift__": "bitwise_left_shift",
    "__irshift__": "bitwise_right_shift",
}
_SPECIAL: Final[dict[str, Emit]] = {
    "aten.copy_.default": _copy,
    "aten.zero_.default": _zero,
    "aten.fill_.Scalar": _fill,
    "aten.fill_.Tensor": _copy,
    "aten.polygamma_.default": _polygamma,
}
