"""Writes inputs as Python expressions: literal lists, calls of the drawing functions, or packed bytes."""

from __future__ import annotations

import base64
import textwrap
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph import (
    Array,
    Exceptional,
    Input,
    Integers,
    Normal,
    Permutation,
    TensorSpec,
    Uniform,
    contiguous_stride,
)
from mindgap.graph.draws import special_values
from mindgap.graph.materialisation import distinct_shape, overlapping_cells
from mindgap.graph.rounding import PART, interval_in

#: A tensor of more elements is drawn by a function where it has a recipe.
_LITERAL_MOST: Final = 256
#: Without a recipe, one of more elements is packed.
_LIST_MOST: Final = 4096
#: Packed bytes that are written into a script; more go into a file beside it.
_PACKED_MOST: Final = 64 << 10
_WIDTH: Final = 116


@dataclass
class Files:
    """Arrays of bytes for the .npz file beside the script. `name`: of the file; empty: everything is written inside."""

    name: str = ""
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])


def expression(name: str, given: Input, array: Array, files: Files) -> str:
    """Returns a Python expression for an input's tensor, with its bits and strides. `name`: its key in `files`."""
    spec = given.spec
    if spec.numel == 0:
        return f"torch.empty({spec.shape}, dtype=torch.{spec.dtype})"
    plain = to_torch(array)
    equal = _all_equal(plain)
    if equal is not None and (spec.numel > 1 or not spec.shape):
        return _laid_out(equal, spec)
    if spec.numel <= _LITERAL_MOST:
        return _laid_out(_as_list(plain), spec)
    drawn = _drawn(given)
    if drawn:
        return drawn
    if spec.numel <= _LIST_MOST:
        return _laid_out(_as_list(plain), spec)
    return _laid_out(_packed(name, array, spec, files), spec)


def number(value: bool | int | float | complex) -> str:
    """Writes a number in Python; `inf` and `nan` are names that the script imports."""
    if isinstance(value, complex):
        return f"complex({number(value.real)}, {number(value.imag)})"
    return repr(value)


def _laid_out(text: str, spec: TensorSpec) -> str:
    """Wraps the expression of contiguous values to give it the strides of the spec."""
    if spec.stride == contiguous_stride(spec.shape):
        return text
    return f"strided({text}, {spec.stride})"


def _bits(tensor: torch.Tensor) -> bytes:
    # One element with a stride of 0 counts as contiguous, and cannot be viewed in bytes.
    return tensor.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8).numpy().tobytes()


def _all_equal(plain: torch.Tensor) -> str | None:
    """Returns `torch.full(…)` if every element has the same bits."""
    data, size = _bits(plain), plain.element_size()
    if plain.dim() == 0 or data != data[:size] * plain.numel():
        return None
    value = plain.flatten()[0].item()
    made = torch.full(plain.shape, value, dtype=plain.dtype)
    return f"torch.full({tuple(plain.shape)}, {number(value)}, dtype={plain.dtype})" if _bits(made) == data else None


def _as_list(plain: torch.Tensor) -> str:
    """Returns `torch.tensor` of nested lists, or of the bits if a list loses them (NaN with a payload)."""
    values: list[Any] = plain.flatten().tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # untyped in PyTorch
    texts = [number(value) for value in values]
    if plain.dtype == torch.float32:
        texts = [_short(value, text) for value, text in zip(values, texts, strict=True)]
    made = torch.tensor([_value(text) for text in texts], dtype=plain.dtype)
    if _bits(made) != _bits(plain):
        return f'from_bits("{_bits(plain).hex()}", {plain.dtype}, {tuple(plain.shape)})'
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


def _drawn(given: Input) -> str:
    """Returns a call of the recipe's drawing function; empty if the recipe draws nothing."""
    spec, recipe = given.spec, given.recipe
    cells = overlapping_cells(spec)
    shape = (cells,) if cells else distinct_shape(spec)
    start, dtype = "", f"torch.{spec.dtype}"
    part = PART.get(spec.dtype, spec.dtype)
    match recipe:
        case Uniform():
            first, last = interval_in(part, recipe.low, recipe.high)
            ends = ", ".join(map(number, (recipe.low, recipe.high, first, last)))
            start = f"uniform({recipe.seed}, {shape}, {dtype}, {ends})"
        case Normal():
            start = f"normal({recipe.seed}, {shape}, {dtype}, {number(recipe.mean)}, {number(recipe.std)})"
        case Integers():
            start = f"integers({recipe.seed}, {shape}, {dtype}, {recipe.low}, {recipe.high})"
        case Permutation():
            cells, shape = None, distinct_shape(spec)
            start = f"permutation({recipe.seed}, {shape}, {dtype})"
        case Exceptional():
            first, last = interval_in(part, -1.0, 1.0)
            table = special_values(part)
            bits = table.view(f"u{table.itemsize}").tolist()
            start = f"exceptional({recipe.seed}, {shape}, {dtype}, {number(recipe.share)}, {first}, {last}, {bits})"
        case _:
            return ""
    if cells:
        return f"{start}.as_strided({spec.shape}, {spec.stride})"
    return _laid_out(start if shape == spec.shape else f"{start}.expand({spec.shape})", spec)


def _packed(name: str, array: Array, spec: TensorSpec, files: Files) -> str:
    data = _bits(to_torch(array))
    packed = zlib.compress(data, 9)
    if files.name and len(packed) > _PACKED_MOST:
        files.arrays[name] = np.frombuffer(data, np.uint8)
        return f'loaded("{files.name}", "{name}", torch.{spec.dtype}, {spec.shape})'
    text = base64.b85encode(packed).decode()
    lines = "\n".join(text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH))
    return f'unpacked("""\n{lines}\n""", torch.{spec.dtype}, {spec.shape})'
