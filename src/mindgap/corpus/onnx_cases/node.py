"""One ONNX node as its translation to PyTorch sees it, and the table that translations are kept in.

A translation takes the node and its operands as tensors (None where there is none, or where the
operand is structural: a shape, an axis, a number of pieces) and calls PyTorch. What is structural is
a fact about the case and is read with `OnnxNode.known`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[Any]]
#: A translation gives one tensor, or a tuple with one for each output.
Translate = Callable[..., Any]


class Untranslated(Exception):
    """A node that has no equivalent here; the message is one line."""


@dataclass(frozen=True)
class OnnxNode:
    """`structural`: the operands that are facts about the case, by position. `wanted`: outputs that have a name."""

    op: str
    attributes: Mapping[str, Any]
    structural: Mapping[int, Array]
    wanted: tuple[bool, ...]

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or what it is where it is left out."""
        return self.attributes.get(name, default)

    def known(self, position: int) -> Array | None:
        """A structural operand, None where it is left out."""
        return self.structural.get(position)

    def integers(self, position: int, attribute: str = "") -> list[int] | None:
        """Whole numbers from a structural operand, or from the attribute that held them in older versions."""
        found = self.known(position)
        if found is None:
            older = self.get(attribute) if attribute else None
            return None if older is None else [int(i) for i in older]
        return [int(i) for i in found.reshape(-1)]

    def only(self, condition: bool, what: str) -> None:
        """Raise `Untranslated` unless the condition holds."""
        if not condition:
            raise Untranslated(f"{self.op} {what} has no equivalent here")


@dataclass(frozen=True)
class Translation:
    """`structural`: positions of operands that must be known before the case runs."""

    function: Translate
    structural: tuple[int, ...] = ()


TRANSLATIONS: Final[dict[str, Translation]] = {}


def translates(*ops: str, structural: tuple[int, ...] = ()) -> Callable[[Translate], Translate]:
    """Registers a translation for ONNX operators."""

    def register(function: Translate) -> Translate:
        for op in ops:
            if op in TRANSLATIONS:
                raise ValueError(f"two translations of {op}")
            TRANSLATIONS[op] = Translation(function, structural)
        return function

    return register


def directly(table: Mapping[str, Any]) -> None:
    """Registers PyTorch functions that take an ONNX operator's operands as they are."""
    for op, function in table.items():
        translates(op)(functools.partial(_as_it_is, function))


def _as_it_is(function: Callable[..., torch.Tensor], _: OnnxNode, *operands: torch.Tensor) -> torch.Tensor:
    return function(*operands)
