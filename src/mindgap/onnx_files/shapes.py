"""Translates ONNX operators that move, select, repeat or count elements."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.nn import functional as F

from mindgap.onnx_files.node import OnnxNode, translates
from mindgap.onnx_files.pointwise import element_type
from mindgap.sources.translated_model import InvalidFile

Tensor = torch.Tensor


@translates("Reshape", structural=(1,))
def reshape(node: OnnxNode, x: Tensor, _: None = None) -> Tensor:
    sizes = node.integers(1, "shape") or []
    kept = sizes if node.get("allowzero", 0) else [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return x.reshape(kept).clone()


@translates("Transpose")
def transpose(node: OnnxNode, x: Tensor) -> Tensor:
    return x.permute(node.get("perm", list(range(x.dim()))[::-1])).contiguous()


@translates("Concat")
def concat(node: OnnxNode, *operands: Tensor) -> Tensor:
    return torch.cat(operands, node.get("axis"))


@translates("Split", structural=(1,))
def split(node: OnnxNode, x: Tensor, _: None = None) -> tuple[Tensor, ...]:
    axis, sizes = node.get("axis", 0), node.integers(1, "split")
    if sizes is None:
        return torch.split(x, math.ceil(x.shape[axis] / len(node.wanted)), axis)
    return torch.split(x, sizes, axis)


@translates("Slice", structural=(1, 2, 3, 4))
def slices(node: OnnxNode, x: Tensor, *_: None) -> Tensor:
    starts, ends = node.integers(1, "starts") or [], node.integers(2, "ends") or []
    axes = node.integers(3, "axes") or list(range(len(starts)))
    steps = node.integers(4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        positions = range(x.shape[axis])[slice(start, None if step < 0 and end < -x.shape[axis] else end, step)]
        if step > 0:
            x = torch.ops.aten.slice.Tensor(x, axis, positions.start, max(positions.stop, positions.start), step)
        else:
            x = torch.index_select(x, axis, torch.tensor(list(positions), dtype=torch.int64))
    return x.clone()


@translates("Squeeze", structural=(1,))
def squeeze(node: OnnxNode, x: Tensor, _: None = None) -> Tensor:
    axes = node.integers(1, "axes")
    return (x.squeeze() if axes is None else x.squeeze(axes)).clone()


@translates("Unsqueeze", structural=(1,))
def unsqueeze(node: OnnxNode, x: Tensor, _: None = None) -> Tensor:
    axes = node.integers(1, "axes") or []
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x.clone()


@translates("Expand", structural=(1,))
def expand(node: OnnxNode, x: Tensor, _: None = None) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, node.integers(1) or [])).clone()


@translates("Tile", structural=(1,))
def tile(node: OnnxNode, x: Tensor, _: None = None) -> Tensor:
    return x.repeat(node.integers(1) or [])


@translates("Flatten")
def flatten(node: OnnxNode, x: Tensor) -> Tensor:
    axis = node.get("axis", 1)
    return x.reshape(math.prod(x.shape[: axis if axis >= 0 else axis + x.dim()]), -1).clone()


@translates("ConstantOfShape", structural=(0,))
def constant_of_shape(node: OnnxNode, _: None) -> Tensor:
    value = node.get("value", torch.zeros(1))
    return torch.full(node.integers(0) or [], value.item(), dtype=value.dtype)


@translates("Range", structural=(0, 1, 2))
def arange(node: OnnxNode, *_: None) -> Tensor:
    start, stop, step = (node.known(i) for i in range(3))
    assert start is not None and stop is not None and step is not None
    dtype = getattr(torch, start.dtype.name)
    return torch.arange(start.item(), stop.item(), step.item(), dtype=dtype)


@translates("EyeLike")
def eye_like(node: OnnxNode, x: Tensor) -> Tensor:
    kind = element_type(node.get("dtype")) if node.get("dtype") else x.dtype
    rows, columns = x.shape
    return torch.diag_embed(torch.ones(max(rows, columns)), node.get("k", 0))[:rows, :columns].to(kind)


@translates("Gather")
def gather(node: OnnxNode, x: Tensor, index: Tensor) -> Tensor:
    axis = node.get("axis", 0) % x.dim()
    flat = torch.index_select(x, axis, _wrapped(index, x.shape[axis]).reshape(-1))
    return flat.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


def _wrapped(index: Tensor, size: int) -> Tensor:
    whole = index.to(torch.int64)
    return torch.where(whole < 0, whole + size, whole)


@translates("GatherElements")
def gather_elements(node: OnnxNode, x: Tensor, index: Tensor) -> Tensor:
    axis = node.get("axis", 0)
    return torch.gather(x, axis, _wrapped(index, x.shape[axis]))


@translates("GatherND")
def gather_nd(node: OnnxNode, x: Tensor, index: Tensor) -> Tensor:
    batch = node.get("batch_dims", 0)
    rows = [
        torch.arange(size).reshape([-1 if i == j else 1 for j in range(index.dim() - 1)])
        for i, size in enumerate(x.shape[:batch])
    ]
    return x[(*rows, *index.unbind(-1))]


_REDUCED: Final = {b"add": "sum", b"mul": "prod", b"max": "amax", b"min": "amin"}


@translates("ScatterElements", "Scatter")
def scatter_elements(node: OnnxNode, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    axis, reduction = node.get("axis", 0), node.get("reduction", b"none")
    if index.shape != updates.shape:  # torch.scatter takes more updates than indices
        raise InvalidFile(f"indices of shape {list(index.shape)} and updates of shape {list(updates.shape)} must agree")
    positions = _wrapped(index, x.shape[axis])
    if reduction == b"none":
        return torch.scatter(x, axis, positions, updates)
    return torch.scatter_reduce(x, axis, positions, updates, _REDUCED[reduction])


@translates("ScatterND")
def scatter_nd(node: OnnxNode, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    """Flattens rows, so that `scatter_reduce` can apply its reductions."""
    depth = index.shape[-1]
    rows = torch.zeros(index.shape[:-1], dtype=torch.int64)
    for position, size in enumerate(x.shape[:depth]):
        rows = rows * size + _wrapped(index[..., position], size)
    width = math.prod(x.shape[depth:])
    flat, new = x.reshape(-1, width), updates.reshape(-1, width)
    positions = rows.reshape(-1, 1).expand(-1, width)
    reduction = node.get("reduction", b"none")
    if reduction == b"none":
        return flat.scatter(0, positions, new).reshape(x.shape)
    return flat.scatter_reduce(0, positions, new, _REDUCED[reduction]).reshape(x.shape)


_PADS: Final = {b"reflect": "reflect", b"edge": "replicate", b"wrap": "circular"}


@translates("Pad", structural=(1, 2, 3))
def pad(node: OnnxNode, x: Tensor, *_: None) -> Tensor:
    pads, mode, value = node.integers(1, "pads") or [], node.get("mode", b"constant"), node.known(2)
    axes = [axis % x.dim() for axis in node.integers(3) or range(x.dim())]
    before, after = [0] * x.dim(), [0] * x.dim()
    for position, axis in enumerate(axes):
        before[axis], after[axis] = pads[position], pads[position + len(axes)]
    widths = [n for axis in reversed(range(x.dim())) for n in (before[axis], after[axis])]
    if mode == b"constant":
        return F.pad(x, widths, value=node.get("value", 0.0) if value is None else value.item())
    # PyTorch pads the last dimensions only, of a batch of channels.
    last = max(2 * (x.dim() - axis) for axis in range(x.dim()) if before[axis] or after[axis])
    node.only(last <= 6, "by values over so many dimensions")
    return F.pad(x.reshape([1] * max(0, last // 2 + 2 - x.dim()) + list(x.shape)), widths[:last], _PADS[mode]).reshape(
        [n + b + a for n, b, a in zip(x.shape, before, after, strict=True)]
    )


@translates("CenterCropPad", structural=(1,))
def center_crop_pad(node: OnnxNode, x: Tensor, _: None) -> Tensor:
    for axis, size in zip(node.get("axes", range(x.dim())), node.integers(1) or [], strict=True):
        axis = axis % x.dim()
        spare = size - x.shape[axis]
        if spare < 0:
            x = x.narrow(axis, -spare // 2, size)
        else:
            x = F.pad(x, [0, 0] * (x.dim() - axis - 1) + [spare // 2, spare - spare // 2])
    return x.clone()


@translates("DepthToSpace")
def depth_to_space(node: OnnxNode, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    n = node.get("blocksize")
    if node.get("mode", b"DCR") == b"CRD":
        return F.pixel_shuffle(x, n)
    return x.reshape(b, n, n, c // n**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(b, c // n**2, h * n, w * n)


@translates("SpaceToDepth")
def space_to_depth(node: OnnxNode, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    n = node.get("blocksize")
    if node.get("mode", b"DCR") == b"CRD":
        return F.pixel_unshuffle(x, n)
    return x.reshape(b, c, h // n, n, w // n, n).permute(0, 3, 5, 1, 2, 4).reshape(b, c * n**2, h // n, w // n)


@translates("Trilu", structural=(1,))
def trilu(node: OnnxNode, x: Tensor, _: None = None) -> Tensor:
    (k,) = node.integers(1) or [0]
    return torch.triu(x, k) if node.get("upper", 1) else torch.tril(x, k)


@translates("OneHot", structural=(1,))
def one_hot(node: OnnxNode, index: Tensor, _: None, values: Tensor) -> Tensor:
    (depth,) = node.integers(1) or [0]
    whole = torch.remainder(index.to(torch.int64), depth)
    axis = node.get("axis", -1)
    inside = (index >= -depth) & (index < depth)
    positions = torch.arange(depth)
    hot = (whole.unsqueeze(-1) == positions) & inside.unsqueeze(-1)
    return torch.where(hot, values[1], values[0]).movedim(-1, axis).contiguous()


@translates("Compress", structural=(1,))
def compress(node: OnnxNode, x: Tensor, _: None) -> Tensor:
    mask: Any = node.known(1)
    positions = torch.tensor(mask.nonzero()[0], dtype=torch.int64)
    axis = node.get("axis")
    return torch.index_select(x.reshape(-1) if axis is None else x, axis or 0, positions)


@translates("ReverseSequence", structural=(1,))
def reverse_sequence(node: OnnxNode, x: Tensor, _: None) -> Tensor:
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    rows = x.movedim((batch, time), (0, 1))
    lengths = node.integers(1) or []
    turned = [torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(rows, lengths, strict=True)]
    return torch.stack(turned).movedim((0, 1), (batch, time)).contiguous()


@translates("Col2Im", structural=(1, 2))
def col2im(node: OnnxNode, x: Tensor, *_: None) -> Tensor:
    size, block = node.integers(1) or [], node.integers(2) or []
    node.only(len(size) == 2, "of other than two dimensions")
    pads = node.get("pads", [0] * 4)
    node.only(pads[:2] == pads[2:], "with uneven padding")
    return F.fold(x, tuple(size), tuple(block), node.get("dilations", 1), pads[:2], node.get("strides", 1))


@translates("NonZero")
def nonzero(_: OnnxNode, x: Tensor) -> Tensor:
    return torch.nonzero(x).t()


@translates("TensorScatter", structural=(2,))
def tensor_scatter(node: OnnxNode, past: Tensor, update: Tensor, _: None = None) -> Tensor:
    axis, length = node.get("axis", -2) % past.dim(), past.shape[node.get("axis", -2)]
    count = update.shape[axis]
    circular = node.get("mode", b"linear") == b"circular"
    starts = node.integers(2) or [0] * past.shape[0]
    positions = [[(s + i) % length if circular else s + i for i in range(count)] for s in starts]
    rows = [p.index_copy(axis - 1, torch.tensor(at), u) for p, at, u in zip(past, positions, update, strict=True)]
    return torch.stack(rows)


@translates("mindgap.Stack")
def stack(node: OnnxNode, *operands: Tensor) -> Tensor:
    """What the iterations of `Loop` and `Scan` collect."""
    return torch.stack(operands, node.get("axis"))


@translates("mindgap.Select")
def select(node: OnnxNode, x: Tensor) -> Tensor:
    """What an iteration of `Scan` gets of a scanned input."""
    return x.select(node.get("axis"), node.get("index")).clone()


@translates("mindgap.Piece")
def piece(node: OnnxNode, x: Tensor) -> Tensor:
    """One tensor of `SplitToSequence`."""
    part = x.narrow(node.get("axis"), node.get("index"), node.get("size"))
    return part.clone() if node.get("keepdims") else part.squeeze(node.get("axis")).clone()
