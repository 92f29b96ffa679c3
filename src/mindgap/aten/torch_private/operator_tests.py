"""PyTorch's own test suite: its descriptions of operators and modules, each with a generator of sample inputs.

The suite is imported on the first call. It needs the package `expecttest`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch


def operator_descriptions() -> Sequence[Any]:
    """Returns an `OpInfo` for each operator and variant. Raises `ImportError` if a package of the suite is missing."""
    with _flags_left_mutable():
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def module_descriptions() -> Sequence[Any]:
    """Returns a `ModuleInfo` for each module. Raises `ImportError` if a package of the suite is missing."""
    with _flags_left_mutable():
        from torch.testing._internal.common_modules import module_db
    return module_db


@contextlib.contextmanager
def _flags_left_mutable() -> Generator[None]:
    """Undoes one effect of importing the suite: it makes the flags of `torch.backends` read-only."""
    frozen: Any = torch.backends.disable_global_flags
    world: dict[str, Any] = frozen.__globals__
    flag = "__allow_nonbracketed_mutation_flag"
    before = world[flag]
    try:
        yield
    finally:
        world[flag] = before


def call_without_seeds() -> None:
    """Makes samples of random functions call the function alone, in this process. PyTorch's test suite sets the seed
    around each call, which takes 300 µs."""
    from torch.testing._internal import common_methods_invocations

    suite: Any = common_methods_invocations

    def alone(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    suite.wrapper_set_seed = alone
