"""Finds the sample sources of a public function, module or tensor method of PyTorch, by its full name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from mindgap.models.corpus.operator_samples import modules, operators

_TENSOR: Final = "torch.Tensor."
#: Samples of one function that are tried, evenly spaced over its variants.
_VARIANTS: Final = 3


def sources_of(full: str) -> tuple[str, ...]:
    """Returns the sources that call `torch.nn.functional.gelu`, `torch.nn.Conv2d` or `torch.Tensor.cumsum`; none where
    PyTorch's test suite has no samples of it. Raises `SourceError` if the suite cannot be imported."""
    if full.startswith("torch.nn.") and full.rpartition(".")[2] in _modules():
        return (f"modules:{full.rpartition('.')[2]}",)
    name = full.removeprefix(_TENSOR) if full.startswith(_TENSOR) else full.removeprefix("torch.")
    found = _operators().get(name) or _operators().get(f"nn.functional.{name}") or ()
    return tuple(f"ops:{each}" for each in found[:_VARIANTS])


def method_names() -> frozenset[str]:
    """Returns the names of functions with samples that may be methods of tensors."""
    return frozenset(name for name in _operators() if "." not in name)


@functools.cache
def _modules() -> frozenset[str]:
    return frozenset(modules.names())


@functools.cache
def _operators() -> Mapping[str, tuple[str, ...]]:
    """By the name of a function without `torch.`, the names of its operators with samples, the plain one first."""
    found: dict[str, tuple[str, ...]] = {}
    for name in operators.names():
        described = operators.public_name(name)
        for public in described:
            found[public] = tuple(sorted({*found.get(public, ()), name}, key=lambda each: (each != public, each)))
    return found
