"""What an argument of a transformers model can be said to be made as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: A number, "batch", "length" (tokens in a text), or the dotted path of a number in the configuration.
Dimension = int | str
Shape = tuple[Dimension, ...]


@dataclass(frozen=True, slots=True)
class FloatArgument:
    """Normal values times `scale`, in the dtype of the model; with `positive` uniform ones from 0 to below `scale`."""

    shape: Shape
    scale: float = 1.0
    positive: bool = False


@dataclass(frozen=True, slots=True)
class IntegerArgument:
    """Whole numbers from `low` to below `high`, int64."""

    shape: Shape
    high: int
    low: int = 0


@dataclass(frozen=True, slots=True)
class FilledArgument:
    """One value everywhere; a dimension's name stands for its number."""

    shape: Shape
    value: float | str = 1
    dtype: str = "int64"


@dataclass(frozen=True, slots=True)
class FixedArgument:
    """A value that the model's Python code decides by: nested numbers become a tensor that is a constant of the
    graph, a single number or text stays itself."""

    value: Any


#: What an argument is made as; None leaves it out although a rule would make it.
ArgumentSpec = FloatArgument | IntegerArgument | FilledArgument | FixedArgument | None
