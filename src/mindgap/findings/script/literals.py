"""Writes tensors and arguments as Python expressions of plain PyTorch."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph import Arg, Array, Device, DType, Layout, MemoryFormat, Ref, TensorSpec, contiguous_stride

_WIDTH: Final = 116


def expression(spec: TensorSpec, array: Array) -> str:
    """Returns a Python expression for a tensor, with its bits and strides."""
    if spec.numel == 0:
        return f"torch.empty({spec.shape}, dtype=torch.{spec.dtype})"
    plain = to_torch(array)
    if spec.stride == contiguous_stride(spec.shape):
        return _contiguous(plain)
    if spec.overlaps or 0 in spec.stride:
        return f"{_as_list(_cells(plain, spec))}.as_strided({spec.shape}, {spec.stride})"
    return f"torch.empty_strided({spec.shape}, {spec.stride}, dtype=torch.{spec.dtype}).copy_({_contiguous(plain)})"


def cells_of(spec: TensorSpec) -> int:
    """Returns how many elements of memory a tensor spans from its first to its last."""
    return 1 + sum((size - 1) * step for size, step in zip(spec.shape, spec.stride, strict=True)) if spec.numel else 0


def argument(arg: Arg, values: Mapping[int, str]) -> str:
    """Writes an argument in Python. `values`: the expressions of the graph's values."""
    if isinstance(arg, Ref):
        return values[arg.index]
    if isinstance(arg, (DType, MemoryFormat, Layout)):
        return f"torch.{arg.name}"
    if isinstance(arg, Device):
        return 'torch.device("cpu")'
    if isinstance(arg, tuple):
        return f"[{', '.join(argument(item, values) for item in arg)}]"
    return repr(arg) if arg is None or isinstance(arg, str) else number(arg)


def _cells(plain: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """The memory that a tensor of the spec views: zeros where it has gaps."""
    cells = torch.zeros(cells_of(spec), dtype=plain.dtype)
    places = torch.arange(len(cells)).as_strided(spec.shape, spec.stride).flatten()
    cells[places] = plain.flatten()
    return cells


def _contiguous(plain: torch.Tensor) -> str:
    return (_all_equal(plain) if plain.numel() > 1 else "") or _as_list(plain)


def number(value: bool | int | float | complex) -> str:
    """Writes a number in Python; `inf` and `nan` are names that the script imports."""
    if isinstance(value, complex):
        return f"complex({number(value.real)}, {number(value.imag)})"
    return repr(value)


def _bits(tensor: torch.Tensor) -> bytes:
    # One element with a stride of 0 counts as contiguous, and cannot be viewed in bytes.
    return tensor.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8).numpy().tobytes()


def _all_equal(plain: torch.Tensor) -> str:
    """Returns `torch.full(…)` if every element has the same bits; empty if not."""
    data, size = _bits(plain), plain.element_size()
    if data != data[:size] * plain.numel():
        return ""
    value = plain.flatten()[0].item()
    made = torch.full(plain.shape, value, dtype=plain.dtype)
    return f"torch.full({tuple(plain.shape)}, {number(value)}, dtype={plain.dtype})" if _bits(made) == data else ""


def _as_list(plain: torch.Tensor) -> str:
    """Returns `torch.tensor` of nested lists, or the bytes if a list loses bits (NaN with a payload)."""
    values: list[Any] = plain.flatten().tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # untyped in PyTorch
    texts = [number(value) for value in values]
    if plain.dtype == torch.float32:
        texts = [_short(value, text) for value, text in zip(values, texts, strict=True)]
    made = torch.tensor([_value(text) for text in texts], dtype=plain.dtype)
    if _bits(made) != _bits(plain):
        listed = f'torch.frombuffer(bytearray.fromhex("{_bits(plain).hex()}"), dtype={plain.dtype})'
        return listed if plain.dim() == 1 else f"{listed}.reshape({tuple(plain.shape)})"
    listed = _nested(texts, list(plain.shape), 4)
    if "\n" in listed:
        return f"torch.tensor(\n    {listed},\n    dtype={plain.dtype},\n)"
    return f"torch.tensor({listed}, dtype={plain.dtype})"


def _value(text: str) -> Any:
    """Returns the value that the script will read."""
    return eval(text, {"inf": float("inf"), "nan": float("nan"), "complex": complex})  # our own text, of numbers only


def _short(value: float, exact: str) -> str:
    """Returns the shortest decimal that gives this float32 after rounding by way of float64."""
    short = str(np.float32(value))
    return short if np.float32(float(short)) == np.float32(value) and short not in ("nan", "inf", "-inf") else exact


def _nested(texts: Sequence[str], shape: Sequence[int], indent: int) -> str:
    """Writes nested lists, wrapped into lines."""
    if not shape:
        return texts[0]
    if len(shape) == 1:
        line = f"[{', '.join(texts)}]"
        if len(line) + indent <= _WIDTH:
            return line
        wrapped = textwrap.wrap(", ".join(texts), _WIDTH - indent, break_long_words=False, break_on_hyphens=False)
        return "[" + ("\n" + " " * (indent + 1)).join(wrapped) + "]"
    step = len(texts) // shape[0]
    rows = [_nested(texts[i * step : (i + 1) * step], shape[1:], indent + 1) for i in range(shape[0])]
    flat = f"[{', '.join(rows)}]"
    if "\n" not in flat and len(flat) + indent <= _WIDTH // 2:
        return flat
    return "[" + (",\n" + " " * (indent + 1)).join(rows) + "]"
