"""Translates ONNX operators that sample a tensor at other positions: resizing, grids, regions of interest.

Source of the formulas: ONNX's specification of `Resize` (version 19) and `RoiAlign` (version 22).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional as F

from mindgap.graph import Array
from mindgap.onnx_files.node import OnnxNode, translates

Tensor = torch.Tensor

#: PyTorch's names of interpolation over 1, 2 and 3 dimensions.
_MODES: Final = {
    b"linear": ("linear", "bilinear", "trilinear"), b"cubic": ("", "bicubic", ""), b"nearest": ("nearest",) * 3,
}  # fmt: skip


@dataclass(frozen=True)
class _Axis:
    """One axis to be resized: its number, sizes before and after, the scale, the region of interest as two shares."""

    number: int
    before: int
    after: int
    scale: float
    region: tuple[float, float]


@dataclass(frozen=True)
class _Samples:
    """What each result along an axis is made of: the elements at `positions` [after, neighbours]. `outside`: [after],
    results that are the extrapolation value. `at`: [after], where results lie. `weigh`: returns the weights of the
    neighbours for the distances [after] from the element before; None for one neighbour."""

    positions: Array
    outside: Array
    at: Array
    weigh: Callable[[Tensor], Tensor] | None = None


@translates("Resize", "Upsample", structural=(1, 2, 3))
def resize(node: OnnxNode, x: Tensor, *_: None) -> Tensor:
    """Calls PyTorch's interpolation where it has ONNX's formula, else sums neighbours along one axis after another."""
    axes, placed = _axes(node, x), node.get("coordinate_transformation_mode")
    placed = placed or (b"half_pixel" if node.opset > 10 else b"asymmetric")
    node.only(node.get("mode", b"nearest") == b"nearest" or x.is_floating_point(), "of integers")
    if (result := _pytorch_resize(node, x, axes, placed)) is not None:
        return result
    for axis in axes:
        x = _sampled(node, x, axis.number, _samples(node, axis, placed))
    return x.clone() if not axes else x


def _axes(node: OnnxNode, x: Tensor) -> list[_Axis]:
    """Returns the axes that change, from `sizes` or `scales`."""
    numbers = [axis % x.dim() for axis in node.get("axes", range(x.dim()))]
    sizes, scales, regions = node.integers(3), node.known(2 if node.opset > 10 else 1), node.known(1)
    if sizes:
        factors = [size / x.shape[axis] for size, axis in zip(sizes, numbers, strict=True)]
        policy = node.get("keep_aspect_ratio_policy", b"stretch")
        if policy != b"stretch":
            factors = [min(factors) if policy == b"not_larger" else max(factors)] * len(factors)
            sizes = [int(factor * x.shape[axis] + 0.5) for factor, axis in zip(factors, numbers, strict=True)]
    else:
        given = node.get("scales") if scales is None else scales  # an attribute of old versions of Upsample
        node.only(given is not None, "without sizes and scales")
        factors = [float(scale) for scale in given]
        sizes = [int(factor * x.shape[axis]) for factor, axis in zip(factors, numbers, strict=True)]
    cropped = node.get("coordinate_transformation_mode") == b"tf_crop_and_resize" and regions is not None
    axes_found: list[_Axis] = []
    for i, (axis, size, factor) in enumerate(zip(numbers, sizes, factors, strict=True)):
        region = (
            (float(regions[i]), float(regions[i + len(numbers)])) if cropped and regions is not None else (0.0, 1.0)
        )
        if size != x.shape[axis] or not math.isclose(factor, 1.0) or region != (0.0, 1.0):
            axes_found.append(_Axis(axis, x.shape[axis], size, factor, region))
    return axes_found


def _nearest_mode(node: OnnxNode) -> str:
    return node.get("nearest_mode", b"round_prefer_floor" if node.opset > 10 else b"floor").decode()


def _coordinates(node: OnnxNode, axis: _Axis, placed: bytes) -> tuple[Array, Array]:
    """Returns where each result lies in the operand, and which lie outside (`tf_crop_and_resize`)."""
    y, wide, last = np.arange(axis.after, dtype=np.float64), axis.scale * axis.before, axis.before - 1
    centred = (y + 0.5) / axis.scale - 0.5
    start, end = axis.region
    if placed == b"align_corners":
        places = y * 0 if wide == 1 else y * last / (wide - 1)
    elif placed == b"asymmetric":
        places = y / axis.scale
    elif placed == b"tf_crop_and_resize":
        places = start * last + (
            y * 0 + (end - start) * last / 2 if wide == 1 else y * (end - start) * last / (wide - 1)
        )
    elif placed == b"tf_half_pixel_for_nn":
        places = (y + 0.5) / axis.scale
    elif placed == b"half_pixel_symmetric":
        places = axis.before / 2 * (1 - axis.after / wide) + centred
    else:
        node.only(placed in (b"half_pixel", b"pytorch_half_pixel"), f"by {placed.decode()}")
        places = y * 0 if placed == b"pytorch_half_pixel" and wide == 1 else centred
    outside = ((places < 0) | (places > last)) & (placed == b"tf_crop_and_resize")
    return places, outside


def _samples(node: OnnxNode, axis: _Axis, placed: bytes) -> _Samples:
    at, outside = _coordinates(node, axis, placed)
    mode, last = node.get("mode", b"nearest"), axis.before - 1
    if mode == b"nearest":
        rounded = {
            "round_prefer_floor": np.ceil(at - 0.5), "round_prefer_ceil": np.floor(at + 0.5), "floor": np.floor(at),
            "ceil": np.ceil(at),
        }[_nearest_mode(node)]  # fmt: skip
        positions = np.clip(rounded, 0, last).astype(np.int64)[:, None]
        return _Samples(positions, outside, at)
    reach = {b"linear": 1, b"cubic": 2}[mode]
    shrunk = min(axis.scale, 1.0) if node.get("antialias", 0) else 1.0
    first = math.floor(-reach / shrunk) + 1
    offsets = np.arange(first, 2 - first)
    below = np.floor(at)
    positions = below[:, None].astype(np.int64) + offsets[None, :]
    within = (positions >= 0) & (positions <= last)

    def weigh(fraction: Tensor) -> Tensor:
        distance = abs(fraction[:, None] - torch.tensor(offsets)[None, :]) * shrunk
        weights = (1 - distance).clip(0, 1) if reach == 1 else _cubic(distance, node.get("cubic_coeff_a", -0.75))
        weights = weights / weights.sum(1, keepdim=True) if shrunk < 1 else weights
        if node.get("exclude_outside", 0):
            weights = weights * torch.tensor(within)
            total = weights.sum(1, keepdim=True)
            weights = weights / torch.where(total == 0, 1.0, total)
        return weights

    return _Samples(np.clip(positions, 0, last), outside, at, weigh)


def _cubic(distance: Tensor, a: float) -> Tensor:
    """Returns Keys' kernel: R. Keys, IEEE Transactions on Acoustics, Speech and Signal Processing 29 (1981)."""
    near, far = distance.clip(0, 1), distance.clip(1, 2)  # each part is 0 at the end where the other begins
    return ((a + 2) * near - (a + 3)) * near * near + 1 + ((a * far - 5 * a) * far + 8 * a) * far - 4 * a


def _pytorch_resize(node: OnnxNode, x: Tensor, axes: Sequence[_Axis], placed: bytes) -> Tensor | None:
    """Calls `interpolate` where its formula is ONNX's (ATen/native/UpSample.h); else returns None."""
    rank, mode, sized = x.dim() - 2, node.get("mode", b"nearest"), bool(node.integers(3))
    if not axes or not 1 <= rank <= 3 or axes[0].number < 2 or node.get("antialias", 0):
        return None
    name, aligned = _MODES[mode][rank - 1], placed == b"align_corners"
    if mode == b"nearest":
        same = placed == b"asymmetric" and _nearest_mode(node) == "floor"
    else:
        whole = all(axis.after > 1 and math.isclose(axis.scale * axis.before, axis.after) for axis in axes)
        same = placed == b"half_pixel" or (whole and (aligned or placed == b"pytorch_half_pixel"))
        same &= not node.get("exclude_outside", 0) and math.isclose(node.get("cubic_coeff_a", -0.75), -0.75)
    if not name or not same:
        return None
    sizes = {axis.number: axis.after if sized else axis.scale for axis in axes}
    given: Any = [sizes.get(axis, x.shape[axis] if sized else 1.0) for axis in range(2, x.dim())]
    call: Any = {"size": given} if sized else {"scale_factor": given, "recompute_scale_factor": False}
    return F.interpolate(x, mode=name, align_corners=None if mode == b"nearest" else aligned, **call)


def _sampled(node: OnnxNode, x: Tensor, axis: int, samples: _Samples) -> Tensor:
    """Sums an axis's neighbours, each times its weight. The graph computes coordinates in float32, as runtimes do, so
    that their rounding counts."""
    weights = None
    if samples.weigh is not None:
        at, count = samples.at, len(samples.at)
        step = float(at[-1] - at[0]) / max(count - 1, 1)
        places = torch.arange(count, dtype=torch.float32) * step + float(at[0])
        weights = samples.weigh(places - torch.tensor(np.floor(at), dtype=torch.float32)).to(x.dtype)
    along = [-1 if i == axis else 1 for i in range(x.dim())]
    result: Tensor | None = None
    for number, positions in enumerate(samples.positions.T):
        part = torch.index_select(x, axis, torch.tensor(positions))
        if weights is not None:
            part = part * weights[:, number].reshape(along)
        result = part if result is None else result + part
    assert result is not None, "each result has a neighbour"
    if samples.outside.any():
        value = torch.tensor(node.get("extrapolation_value", 0.0), dtype=x.dtype)
        result = torch.where(torch.tensor(samples.outside).reshape(along), value, result)
    return result


_GRID_MODES: Final = {
    b"linear": "bilinear", b"bilinear": "bilinear", b"cubic": "bicubic", b"bicubic": "bicubic", b"nearest": "nearest",
}  # fmt: skip


@translates("GridSample")
def grid_sample(node: OnnxNode, x: Tensor, grid: Tensor) -> Tensor:
    mode = _GRID_MODES[node.get("mode", b"linear")]
    return F.grid_sample(x, grid, mode, node.get("padding_mode", b"zeros").decode(), bool(node.get("align_corners", 0)))


@translates("AffineGrid", structural=(1,))
def affine_grid(node: OnnxNode, theta: Tensor, _: None) -> Tensor:
    return F.affine_grid(theta, node.integers(1) or [], bool(node.get("align_corners", 0)))


@translates("RoiAlign")
def roi_align(node: OnnxNode, x: Tensor, boxes: Tensor, batch: Tensor) -> Tensor:
    """Pools [boxes, channels, height, width] from samples between four elements each."""
    ratio, high, wide = node.get("sampling_ratio", 0), node.get("output_height", 1), node.get("output_width", 1)
    node.only(ratio > 0, "with as many samples as the values of the boxes decide (sampling_ratio=0)")
    default = b"half_pixel" if node.opset >= 16 else b"output_half_pixel"
    aligned = node.get("coordinate_transformation_mode", default) == b"half_pixel"
    corners = boxes * node.get("spatial_scale", 1.0) - (0.5 if aligned else 0.0)
    rows = _box_samples(corners[:, 1], corners[:, 3], high, ratio, x.shape[2], aligned)
    columns = _box_samples(corners[:, 0], corners[:, 2], wide, ratio, x.shape[3], aligned)
    picture = batch.to(torch.int64).reshape(-1, 1, 1, 1)
    channel = torch.arange(x.shape[1]).reshape(1, -1, 1, 1)
    parts = [
        x[picture, channel, row[:, None, :, None], column[:, None, None, :]]
        * (row_weight[:, None, :, None] * column_weight[:, None, None, :])
        for row, row_weight in rows for column, column_weight in columns
    ]  # fmt: skip
    shape = [boxes.shape[0], x.shape[1], high, ratio, wide, ratio]
    if node.get("mode", b"avg") == b"max":
        largest = torch.maximum(torch.maximum(parts[0], parts[1]), torch.maximum(parts[2], parts[3]))
        return largest.reshape(shape).amax([3, 5])
    return (parts[0] + parts[1] + parts[2] + parts[3]).reshape(shape).mean([3, 5])


def _box_samples(
    start: Tensor, end: Tensor, bins: int, ratio: int, size: int, aligned: bool
) -> list[tuple[Tensor, Tensor]]:
    """Returns the lower and the upper neighbours of the samples along one axis, each with weights: [boxes, samples]."""
    extent = end - start if aligned else torch.clamp(end - start, min=1.0)
    steps = (torch.arange(bins * ratio, dtype=start.dtype) + 0.5) / ratio
    at = start[:, None] + steps[None, :] * (extent / bins)[:, None]
    inside = ((at >= -1.0) & (at <= size)).to(start.dtype)
    at = torch.clamp(at, 0.0, size - 1.0)
    below = torch.floor(at)
    share = at - below
    low = below.to(torch.int64)
    return [(low, (1 - share) * inside), (torch.clamp(low + 1, max=size - 1), share * inside)]
