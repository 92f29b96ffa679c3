"""Operator overloads (the members of `torch.ops`): type, schemas, kernels, decompositions and dispatch keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import FunctionSchema
from torch._C import DispatchKey as DispatchKey
from torch._ops import OpOverload as OpOverload, OpOverloadPacket as OpOverloadPacket
from torch.library import _impls as _implemented

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (these names have no public counterpart)


_KEY: Final[Any] = torch._C.DispatchKey
#: The dispatch keys of an implementation for the CPU, the most specific first.
_KEYS: Final = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


def python_implementation(func: Any) -> Callable[..., Any] | None:
    """Returns what calls the implementation for the CPU that Python code registered for an overload, or None."""
    name = func._schema.name.partition("::")[2]
    overload = func._schema.overload_name
    named = f"{func.namespace}/{name}{'.' if overload else ''}{overload}"
    for key in _KEYS:
        if f"{named}/{key}" in _implemented:
            return partial(func._op_dk, getattr(_KEY, key))
    return None


def custom_operators() -> list[Any]:
    """Returns the objects that `torch.library.custom_op` made in this process."""
    from torch._library.custom_ops import OPDEFS

    return list(OPDEFS.values())


def decomposition_of(function: Any) -> Callable[..., Any] | None:
    """The registered decomposition of an operator overload, such as `torch.ops.aten.silu.default`."""
    from torch import _decomp

    table: dict[Any, Callable[..., Any]] = vars(_decomp)["decomposition_table"]
    return table.get(function)


def reference_of(packet: str) -> Callable[..., Any] | None:
    """The reference implementation of an operator packet, such as `softmax`."""
    import torch._refs as refs
    import torch._refs.nn.functional as functional

    for module in (refs, functional):
        function: Callable[..., Any] | None = getattr(module, packet, None)
        if function is not None:
            return function
    return None


_C: Final[Any] = torch._C  # pyright: ignore[reportPrivateUsage] # PyTorch's dispatcher, which has no types


def schema_of(overload: OpOverload) -> FunctionSchema:
    """Returns the schema of an overload: its arguments and returns."""
    return overload._schema  # pyright: ignore[reportPrivateUsage] # there is no public way to a schema


def has_kernel_for(name: str, key: str) -> bool:
    """Returns whether an operator (`aten::add.Tensor`) has a separate kernel for a dispatch key, given by name."""
    return _C._dispatch_has_kernel_for_dispatch_key(name, key)
