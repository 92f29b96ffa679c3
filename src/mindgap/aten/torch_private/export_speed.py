"""`torch.export` without the work that it repeats for each program: half the time of a small one.

A decomposition of a program looks up all composite operators of the dispatcher three times, and registers about 800
kernels and takes them back. Neither depends on the program. Results are the same.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Final

import torch
from torch._C import DispatchKey
from torch._ops import OperatorBase

_C: Final[Any] = torch._C  # pyright: ignore[reportPrivateUsage] # PyTorch's dispatcher, which has no types
_OPS: Final[Any] = torch.ops
_COLLECT: Final = "_collect_all_valid_cia_ops"
_USERS: Final = ("torch._export.utils", "torch.export.exported_program", "torch.export.decomp_utils")


@functools.cache
def remember_composite_operators() -> None:
    """Makes `torch.export` list composite operators once for each state of the registry. A second call does nothing."""
    users = [module for name in _USERS if hasattr(module := importlib.import_module(name), _COLLECT)]
    if users:
        remembered = _remembered(getattr(users[0], _COLLECT))
        for module in users:
            setattr(module, _COLLECT, remembered)
    _register_without_annotations()


def _remembered(collect: Callable[[], set[Any]]) -> Callable[[], set[Any]]:
    known: dict[Any, frozenset[Any]] = {}

    @functools.wraps(collect)
    def remembered() -> set[Any]:
        state = _registry()
        if state not in known:
            names = frozenset(collect())
            # The search itself adds names to `torch.ops`.
            known.clear()
            known[_registry()] = names
        return set(known[_registry()])

    return remembered


def _registry() -> tuple[int, tuple[tuple[str, int], ...]]:
    """Changes when an operator becomes composite, or a namespace gets another operator."""
    composite = tuple(_C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"))
    names = ((name, len(getattr(getattr(_OPS, name), "_dir", ()))) for name in _OPS._dir)
    return hash(composite), tuple(names)


def _register_without_annotations() -> None:
    """`py_impl` defines a function with annotations at each call; to evaluate them takes most of its time."""
    base: Any = OperatorBase
    original = base.py_impl

    @functools.wraps(original)
    def py_impl(self: Any, key: Any) -> Any:
        if not isinstance(key, DispatchKey) or key == DispatchKey.Python:
            return original(self, key)

        def register(kernel: Any) -> Any:
            if key in self.py_kernels:
                raise RuntimeError(f"Trying to override a python impl for {key} on operator {self.name()}")
            self.py_kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return register

    base.py_impl = py_impl
