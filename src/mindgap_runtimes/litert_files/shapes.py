"""Translates LiteRT operators that move elements, select them, or reduce along axes."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions are partly untyped)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch.nn import functional as F

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap_runtimes.litert_files.node import (
    Tensor,
    TfliteNode,
    alike,
    by_values,
    dequantised,
    moving,
    quantised,
    translates,
)

#: The masks of a strided slice's options.
_MASKS: Final = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")


@translates("RESHAPE", structural=(1,))
@moving
def reshape(node: TfliteNode, x: Tensor, _: None = None) -> Tensor:
    if node.structural.get(1) is not None:
        return x.reshape(node.known(1))
    return x.reshape(node.option_list("NewShape") or node.outputs[0].shape)


@translates("TRANSPOSE", structural=(1,))
@moving
def transpose(node: TfliteNode, x: Tensor, _: None) -> Tensor:
    return x.permute(node.known(1))


@translates("EXPAND_DIMS", structural=(1,))
@moving
def expand_dims(node: TfliteNode, x: Tensor, _: None) -> Tensor:
    return x.unsqueeze(node.known(1)[0])


@translates("SQUEEZE")
@moving
def squeeze(node: TfliteNode, x: Tensor) -> Tensor:
    axes = node.option_list("SqueezeDims")
    return x.squeeze(axes) if axes else x.squeeze()


@translates("BROADCAST_TO", structural=(1,))
@moving
def broadcast_to(node: TfliteNode, x: Tensor, _: None) -> Tensor:
    return x.expand(node.known(1)).clone()


@translates("TILE", structural=(1,))
@moving
def tile(node: TfliteNode, x: Tensor, _: None) -> Tensor:
    return x.repeat(node.known(1))


@translates("REVERSE_V2", structural=(1,))
@moving
def reverse(node: TfliteNode, x: Tensor, _: None) -> Tensor:
    return x.flip(node.known(1))


@translates("SLICE", structural=(1, 2))
@moving
def slice_(node: TfliteNode, x: Tensor, _: None, __: None) -> Tensor:
    for axis, (start, size) in enumerate(zip(node.known(1), node.known(2), strict=True)):
        x = x.narrow(axis, start, x.shape[axis] - start if size < 0 else size)
    return x


@translates("STRIDED_SLICE", structural=(1, 2, 3))
@moving
def strided_slice(node: TfliteNode, x: Tensor, *_: None) -> Tensor:
    """Selects as TensorFlow's `strided_slice` does: a bit of a mask is for one position of the bounds."""
    begin, end, stride = node.known(1), node.known(2), node.known(3)
    whole_begin, whole_end, ellipsis, new, single = map(node.option, _MASKS)
    node.only(not ellipsis and not new and not node.option("Offset"), "with an ellipsis, a new axis or an offset")
    node.only(all(step > 0 for step in stride), "backwards")
    dropped: list[int] = []
    for axis, (first, last, step) in enumerate(zip(begin, end, stride, strict=True)):
        if single >> axis & 1:
            x = x.narrow(axis, first % x.shape[axis], 1)
            dropped.append(axis)
            continue
        start = 0 if whole_begin >> axis & 1 else first
        stop = x.shape[axis] if whole_end >> axis & 1 else last
        x = torch.ops.aten.slice.Tensor(x, axis, start, stop, step)
    return x.squeeze(dropped) if dropped else x


@translates("GATHER")
@moving
def gather(node: TfliteNode, x: Tensor, index: Tensor) -> Tensor:
    axis, batch = node.option("Axis"), node.option("BatchDims")
    node.only(batch == 0, "with batch dimensions")
    axis %= x.dim()
    found = torch.index_select(x, axis, index.reshape(-1).to(torch.int64))
    return found.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


@translates("EMBEDDING_LOOKUP")
def embedding_lookup(node: TfliteNode, index: Tensor, table: Tensor) -> Tensor:
    found = torch.index_select(table, 0, index.reshape(-1).to(torch.int64))
    return found if table.is_floating_point() or node.is_quantised else dequantised(found, node.operand(1))


@translates("CONCATENATION")
def concatenation(node: TfliteNode, *parts: Tensor) -> Tensor:
    """Joins tensors; integers that stand for values in another way than the result are quantised again."""
    if node.is_quantised:
        declared = [node.operand(i) for i in range(len(parts))]
        parts = tuple(
            part if alike(given, node.outputs[0]) else quantised(dequantised(part, given), node.outputs[0])
            for part, given in zip(parts, declared, strict=True)
        )
    return node.activated(torch.cat(parts, node.option("Axis")))


@translates("PACK")
@moving
def pack(node: TfliteNode, *parts: Tensor) -> Tensor:
    return torch.stack(parts, node.option("Axis"))


@translates("UNPACK")
def unpack(node: TfliteNode, x: Tensor) -> tuple[Tensor, ...]:
    return x.unbind(node.option("Axis"))


@translates("SPLIT", structural=(0,))
def split(node: TfliteNode, _: None, x: Tensor) -> tuple[Tensor, ...]:
    axis, count = node.known(0)[0], node.option("NumSplits")
    node.only(count > 0 and x.shape[axis] % count == 0, f"of {x.shape[axis]} elements into {count}")
    return x.split(x.shape[axis] // count, axis)


@translates("SPLIT_V", structural=(1, 2))
def split_v(node: TfliteNode, x: Tensor, _: None, __: None) -> tuple[Tensor, ...]:
    sizes, axis = node.known(1), node.known(2)[0]
    rest = x.shape[axis] - sum(size for size in sizes if size >= 0)
    return x.split([rest if size < 0 else size for size in sizes], axis)


@translates("PAD", "PADV2", structural=(1, 2))
@moving
def pad(node: TfliteNode, x: Tensor, *_: None) -> Tensor:
    """Pads with zero, which is the zero point of quantised integers, or with a given value."""
    widths = [node.known(1)[i : i + 2] for i in range(0, 2 * x.dim(), 2)]
    given, quantisation = node.structural.get(2), node.operand(0).quantisation
    value = float(given.reshape(())) if given is not None else float(quantisation.zeros[0]) if quantisation else 0.0
    return F.pad(x, [n for pair in reversed(widths) for n in pair], value=value)


@translates("MIRROR_PAD", structural=(1,))
@moving
def mirror_pad(node: TfliteNode, x: Tensor, _: None) -> Tensor:
    """Pads with what lies inside, without the edge (mode 0) or with it."""
    edge = 1 if node.option("Mode") == 0 else 0
    for axis, (before, after) in enumerate(zip(node.known(1)[::2], node.known(1)[1::2], strict=True)):
        size = x.shape[axis]
        head = range(before - 1 + edge, edge - 1, -1)
        tail = range(size - 1 - edge, size - 1 - edge - after, -1)
        x = torch.index_select(x, axis, torch.tensor([*head, *range(size), *tail]))
    return x


@translates("SPACE_TO_DEPTH")
@moving
def space_to_depth(node: TfliteNode, x: Tensor) -> Tensor:
    (n, h, w, c), block = x.shape, node.option("BlockSize")
    parts = x.reshape(n, h // block, block, w // block, block, c).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(n, h // block, w // block, block * block * c)


@translates("DEPTH_TO_SPACE")
@moving
def depth_to_space(node: TfliteNode, x: Tensor) -> Tensor:
    (n, h, w, c), block = x.shape, node.option("BlockSize")
    parts = x.reshape(n, h, w, block, block, c // block**2).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(n, h * block, w * block, c // block**2)


_REDUCTIONS: Final[dict[str, Callable[..., Tensor]]] = {
    "MEAN": torch.mean, "SUM": torch.sum, "REDUCE_MAX": torch.amax, "REDUCE_MIN": torch.amin,
}  # fmt: skip


def _reduction(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(node: TfliteNode, x: Tensor, _: None = None) -> Tensor:
        axes = sorted({axis % x.dim() for axis in node.known(1)})
        if not axes:
            return x.clone()
        return function(x, axes, keepdim=bool(node.option("KeepDims")))

    return run


for _op, _function in _REDUCTIONS.items():
    translates(_op, structural=(1,))(by_values(_reduction(_function)))


@translates("REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL", structural=(1,))
def reduce_each(node: TfliteNode, x: Tensor, _: None) -> Tensor:
    node.only(not node.is_quantised, "of quantised integers")
    function = {"REDUCE_PROD": torch.prod, "REDUCE_ANY": torch.any, "REDUCE_ALL": torch.all}[node.op]
    for axis in sorted({axis % x.dim() for axis in node.known(1)}, reverse=True):
        x = function(x, axis, keepdim=bool(node.option("KeepDims")))
    return x


@translates("ARG_MAX", "ARG_MIN", structural=(1,))
def arg_extreme(node: TfliteNode, x: Tensor, _: None) -> Tensor:
    function = torch.argmax if node.op == "ARG_MAX" else torch.argmin
    return function(x, node.known(1)[0]).to(TORCH_DTYPES[node.outputs[0].dtype])


@translates("TOPK_V2", structural=(1,))
def top_k(node: TfliteNode, x: Tensor, _: None) -> tuple[Tensor, Tensor]:
    values, indices = torch.topk(x, node.known(1)[0])
    return values, indices.to(TORCH_DTYPES[node.outputs[1].dtype])


@translates("CUMSUM", structural=(1,))
def cumsum(node: TfliteNode, x: Tensor, _: None) -> Tensor:
    node.only(not node.option("Exclusive") and not node.option("Reverse"), "without its own element, or backwards")
    return torch.cumsum(x, node.known(1)[0], dtype=x.dtype)


@translates("ONE_HOT", structural=(1, 2, 3))
def one_hot(node: TfliteNode, index: Tensor, *_: None) -> Tensor:
    depth, on, off = node.known(1)[0], node.structural.get(2), node.structural.get(3)
    assert on is not None and off is not None, "the schema demands them"
    axis = node.option("Axis") % (index.dim() + 1)
    hot = index.unsqueeze(axis) == torch.arange(depth).reshape([-1 if i == axis else 1 for i in range(index.dim() + 1)])
    return torch.where(hot, torch.tensor(on.reshape(())), torch.tensor(off.reshape(())))


@translates("SHAPE")
def shape(node: TfliteNode, x: Tensor) -> Tensor:
    return torch.tensor(x.shape, dtype=TORCH_DTYPES[node.outputs[0].dtype])


@translates("FILL", structural=(0,))
def fill(node: TfliteNode, _: None, value: Tensor) -> Tensor:
    return value.expand(node.known(0)).clone()


@translates("RANGE", structural=(0, 1, 2))
def range_(node: TfliteNode, *_: None) -> Tensor:
    start, stop, step = (node.structural[i].reshape(()).item() for i in range(3))
    count = max(0, math.ceil((stop - start) / step))
    return (torch.arange(count) * step + start).to(TORCH_DTYPES[node.outputs[0].dtype])
