"""Hands runtimes the inputs of a model file that graphs do not hold, and reads what they give back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import to_torch

#: Bytes of a text that are compared.
_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class HeldInput:
    """An input that is no tensor of numbers: texts, a sequence. Runners take it as they take a tensor."""

    value: Any
    dtype: torch.dtype | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of an array."""
        return np.shape(self.value)

    def numpy(self) -> Any:
        """Returns what a runtime is given."""
        return self.value


def fed_value(value: Any) -> torch.Tensor | HeldInput:
    """Returns a new tensor of an array, or what holds another input."""
    if not isinstance(value, np.ndarray):
        return HeldInput(value)
    array: Any = value  # pyright: ignore[reportUnknownVariableType] # of any dtype
    return HeldInput(array) if array.dtype.kind in "OSU" else to_torch(array).clone()


def tensors_of(outputs: Sequence[Any]) -> list[torch.Tensor]:
    """Returns the outputs of a model file as tensors.

    A sequence gives one for each element, and an absent optional value an empty one. A sequence of maps, as of ZipMap,
    is a table of their values, a column for each key in order. Texts become their first 256 bytes, uint8 along a last
    axis.
    """
    return [tensor for each in outputs for tensor in _tensors(each)]


def _tensors(output: Any) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    if output is None:
        return [torch.empty(0)]
    if not isinstance(output, list):
        array: Any = np.asarray(output)
        return [_text_tensor(array) if array.dtype.kind in "OSU" else torch.as_tensor(array)]
    parts: list[Any] = output  # pyright: ignore[reportUnknownVariableType] # of what the runtime gives
    if parts and isinstance(parts[0], dict):
        return [torch.as_tensor([[row[label] for label in sorted(row)] for row in parts])]
    return tensors_of(parts)


def _text_tensor(array: Any) -> torch.Tensor:
    coded: Any = np.char.encode(array.astype("U"), "utf-8").astype(f"S{_BYTES}")
    return torch.as_tensor(np.ascontiguousarray(coded.reshape(-1)).view(np.uint8).reshape(*array.shape, _BYTES).copy())
