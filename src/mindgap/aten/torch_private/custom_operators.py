"""Custom operators: what Python code has defined or implemented through `torch.library`."""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (these names have no public counterpart)

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch.library import _impls as _implemented

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
