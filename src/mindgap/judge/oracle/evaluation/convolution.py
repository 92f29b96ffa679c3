"""Computes large float64 convolutions without the im2col buffer of PyTorch's kernel (9 copies of an image for 3×3).

The output row by row, padding included, is one long vector; a kernel position is then a matrix product with the same
vector of the input, shifted. Same products, added up in another order: what float64 makes of that is far below any
rounding that is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

#: Columns from which it is worth it: smaller ones stay in the cache.
COLUMN_BYTES: Final = 16 << 20
#: Elements of a row of the output that are summed up at a time.
_CHUNK: Final = 4096


def convolved(packet: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """A two-dimensional convolution of stride 1 in one group; None for anything else, and where columns are small."""
    if packet not in ("conv2d", "convolution") or kwargs or len(args) < 2:
        return None
    given: list[Any] = [*args, *[None, [1], [0], [1], False, [0], 1][len(args) - 2 :]]
    if packet == "conv2d":
        given = [*given[:6], False, [0], args[6] if len(args) > 6 else 1]
    x, weight, bias, stride, padding, dilation, transposed, _, groups = given[:9]
    if transposed or groups != 1 or isinstance(padding, str) or set(stride) != {1} or x.dim() != 4:
        return None
    if x.dtype != torch.float64 or weight.dtype != torch.float64 or min(x.shape) == 0 or min(weight.shape) == 0:
        return None
    pads, steps = _pair(padding), _pair(dilation)
    columns = x.shape[0] * weight[0].numel() * x.shape[2] * x.shape[3] * 8
    if columns < COLUMN_BYTES or weight.shape[2] * weight.shape[3] == 1:
        return None
    if not (x.is_contiguous() and weight.is_contiguous()):
        return None
    y = _shifted(torch.nn.functional.pad(x, (pads[1], pads[1], pads[0], pads[0])), weight, steps)
    return y if bias is None else y.add_(bias.reshape(1, -1, 1, 1))


def _pair(value: Any) -> list[int]:
    items = [int(v) for v in value]
    return items if len(items) == 2 else items * 2


def _shifted(x: torch.Tensor, weight: torch.Tensor, dilation: Sequence[int]) -> torch.Tensor:
    """`x` is padded already."""
    count, channels, _, width = x.shape
    made, _, rows, columns = weight.shape
    height_out = x.shape[2] - dilation[0] * (rows - 1)
    width_out = width - dilation[1] * (columns - 1)
    shifts = [i * dilation[0] * width + j * dilation[1] for i in range(rows) for j in range(columns)]
    matrices = weight.permute(2, 3, 0, 1).reshape(rows * columns, made, channels).unbind()
    long = torch.empty(count, made, height_out * width, dtype=x.dtype)
    length = (height_out - 1) * width + width_out
    for image, out in zip(x.reshape(count, channels, -1), long, strict=True):
        for first in range(0, length, _CHUNK):
            last = min(first + _CHUNK, length)
            part = out[:, first:last]
            torch.mm(matrices[0], image[:, first + shifts[0] : last + shifts[0]], out=part)
            for matrix, shift in zip(matrices[1:], shifts[1:], strict=True):
                part.addmm_(matrix, image[:, first + shift : last + shift])
    return long.view(count, made, height_out, width)[..., :width_out].contiguous()
