"""Describes how to make an argument of a transformers model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: A number, "batch", "length" (tokens in a text), or the dotted path of a number in the configuration.
Dimension = int | str
Shape = tuple[Dimension, ...]


@dataclass(frozen=True, slots=True)
class FloatArgument:
    """Normal values times `scale`, in the dtype of the model; with `positive`, uniform values in [0, `scale`)."""

    shape: Shape
    scale: float = 1.0
    positive: bool = False


@dataclass(frozen=True, slots=True)
class IntegerArgument:
    """Integers in [`low`, `high`), int64."""

    shape: Shape
    high: int
    low: int = 0


@dataclass(frozen=True, slots=True)
class FilledArgument:
    """The same value everywhere. The name of a dimension stands for its size."""

    shape: Shape
    value: float | str = 1
    dtype: str = "int64"


@dataclass(frozen=True, slots=True)
class ConstantArgument:
    """A value that the model's Python code decides by.

    Nested numbers become a tensor that is a constant of the graph. A single number or text is passed as it is.
    """

    value: Any


#: What an argument is made as; None leaves it out although a rule would make it.
ArgumentSpec = FloatArgument | IntegerArgument | FilledArgument | ConstantArgument | None
