"""Imports torchax on a PyTorch that it was not made for.

torchax 0.0.13 names overloads for named tensors (`aten.prod.dim_Dimname`), which PyTorch 2.13 no longer has, as keys of
a table for autocast. While it is imported, such a name gives a placeholder: a key that no call has. Nothing else of
torchax or PyTorch changes.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import torch

_NAMED_TENSORS: Final = re.compile(r"dimname|names", re.IGNORECASE)


def import_torchax() -> Any:
    """Imports torchax and its translations, which it loads with its first environment."""
    with _placeholders():
        torchax: Any = importlib.import_module("torchax")
        torchax.default_env()
    return torchax


@contextmanager
def _placeholders() -> Generator[None]:
    """Gives a placeholder for each overload for named tensors that PyTorch lacks."""
    packets: Any = type(torch.ops.aten.add)
    original = packets.__getattr__

    def overload(packet: Any, name: str) -> Any:
        try:
            return original(packet, name)
        except AttributeError:
            if _NAMED_TENSORS.search(name):
                return object()
            raise

    packets.__getattr__ = overload
    try:
        yield
    finally:
        packets.__getattr__ = original
