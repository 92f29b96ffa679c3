"""Represents one ONNX node for its translation to PyTorch, and keeps the table of translations.

A translation takes the node and its operands as tensors, and calls PyTorch. An operand is None if it is left out or
structural (a shape, an axis, a number of pieces). `OnnxNode.known` reads structural operands, which are constants of
the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.graph import Array
from mindgap.sources.translated_model import TranslatedModel, TranslationTable, Untranslated


class ConstantResults(Untranslated):
    """No output of a model depends on a tensor that it is given. `values`: the outputs by name. `program`: what
    computes them from weights; None where shapes and constants decide them."""

    def __init__(self, values: Mapping[str, torch.Tensor], program: TranslatedModel | None) -> None:
        super().__init__("nothing in it depends on a tensor: shapes and constants decide the result")
        self.values, self.program = values, program


@dataclass(frozen=True)
class OnnxNode:
    """One node.

    op: its type, behind its domain where that is not ONNX's own: `com.microsoft.QAttention`.
    structural: constant operands by position.
    wanted: whether each output has a name.
    opset: the version of the operator set that the model imports for its domain.
    name: that of the node in the file, or one made of its type and position.
    """

    op: str
    attributes: Mapping[str, Any]
    structural: Mapping[int, Array]
    wanted: tuple[bool, ...]
    opset: int = 22
    name: str = ""

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def known(self, position: int) -> Array | None:
        """Returns a structural operand, or None if it is left out."""
        return self.structural.get(position)

    def integers(self, position: int, attribute: str = "") -> list[int] | None:
        """Returns integers from a structural operand, or from the attribute that held them in older versions of
        ONNX."""
        value = self.known(position)
        if value is None:
            older = self.get(attribute) if attribute else None
            return None if older is None else [int(i) for i in older]
        return [int(i) for i in value.reshape(-1)]

    def only(self, condition: bool, what: str) -> None:
        """Raises `Untranslated` unless the condition holds."""
        if not condition:
            raise Untranslated(f"{self.op} {what} has no equivalent here")


TRANSLATIONS: Final = TranslationTable()
translates = TRANSLATIONS.register


def directly(table: Mapping[str, Any]) -> None:
    """Registers PyTorch functions that take an ONNX operator's operands as they are."""
    for op, function in table.items():
        translates(op)(functools.partial(_as_it_is, function))


def _as_it_is(function: Callable[..., torch.Tensor], _: OnnxNode, *operands: torch.Tensor) -> torch.Tensor:
    return function(*operands)
