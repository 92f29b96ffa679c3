"""Calls the definition of a custom operator in place of the operator, so that a graph holds the calls that it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from mindgap.aten.operators import is_composite
from mindgap.aten.torch_private.overloads import decomposition_of, python_implementation
from mindgap.aten.torch_private.pre_dispatch import call_decomposed
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.origin import current_line, user_line_of
from mindgap.graph_capture.tracing import reason_of

#: Namespaces of PyTorch and torchvision, whose operators without a definition in Python are recorded or refused as
#: they are.
BUILT_IN: Final = frozenset({"aten", "prim", "prims", "quantized", "mkldnn", "onednn", "torchvision"})
_PLAIN: Final = frozenset({"aten", "prim", "prims"})


def definition_of(func: Any) -> Callable[..., Any] | None:
    """Returns the function that computes a custom operator from calls of others, or None for one of PyTorch's own.

    That is its implementation in Python for the CPU, its composite kernel, or its registered decomposition. Raises
    `CaptureError` for a custom operator without any of them.
    """
    if func.namespace in _PLAIN:
        return None
    definition = python_implementation(func) or (partial(call_decomposed, func) if is_composite(func) else None)
    definition = definition or decomposition_of(func)
    if definition is None and func.namespace not in BUILT_IN:
        name = func.name()
        raise CaptureError(
            f"{name} is a custom operator without a definition in PyTorch calls, which no other platform can run; "
            f"register one: torch.library.register_kernel({name!r}, 'cpu', FUNCTION)",
            current_line(),
        )
    return definition


def call_definition(func: Any, definition: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Calls the definition of `func`. Raises `CaptureError`, with the operator's name, for code that is no PyTorch."""
    try:
        return definition(*args, **kwargs)
    except CaptureError as error:
        raise CaptureError(f"{error.reason} (in the custom operator {func.name()})", error.line) from error
    except Exception as error:
        reason = f"{reason_of(error)} (in the custom operator {func.name()})"
        raise CaptureError(reason, user_line_of(error.__traceback__)) from error
