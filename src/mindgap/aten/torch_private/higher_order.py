"""Higher-order operators: their base class, and the function that compiles those which eager code calls."""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (these names have no public counterpart)

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import torch
from torch._higher_order_ops import utils as _utils

__all__ = ["replaced_higher_order_operators"]

_Operator = torch._ops.HigherOrderOperator


@contextlib.contextmanager
def replaced_higher_order_operators(replace: Callable[[str], Callable[..., Any] | None]) -> Generator[None]:
    """Calls a replacement for higher-order operators within, and compiles none of them.

    `replace`: from an operator's name, such as `cond`, to a function of the operator's flat arguments; None leaves it.
    """
    call: Any = _Operator.__call__
    compiles: Any = _utils._hop_compile_and_call  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] # not in its stubs

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        replacement = replace(self.name())
        return call(self, *args, **kwargs) if replacement is None else replacement(*args, **kwargs)

    def run(function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))

    _Operator.__call__, _utils._hop_compile_and_call = called, run  # type: ignore[method-assign, attr-defined] # that is the point
    try:
        yield
    finally:
        _Operator.__call__, _utils._hop_compile_and_call = call, compiles  # type: ignore[method-assign, attr-defined]
