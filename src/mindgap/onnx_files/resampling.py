"""Translates ONNX operators that sample a tensor at other positions: resizing, grids, regions of interest.

Source of the formulas: ONNX's specification of `Resize` (version 19) and `RoiAlign` (version 22).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional as F

from mindgap.graph import Array
from mindgap.onnx_files.node import OnnxNode, translates

Tensor = torch.Tensor

#: PyTorch's names of interpolation over 1, 2 and 3 dimensions.
_MODES: Final = {b"linear": ("linear", "bilinear", "trilinear"), b"cubic": ("", "bicubic", "")}
#: How far the weights of PyTorch's interpolation may be from ONNX's.
_WEIGHTS_APART: Final = 1e-6


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
    """What each result along an axis is: `weights` times the elements at `positions`, both [after, neighbours].
    `outside`: [after], results that are the extrapolation value."""

    positions: Array
    weights: Array
    outside: Array


@translates("Resize", structural=(1, 2, 3))
def resize(node: OnnxNode, x: Tensor, *_: None) -> Tensor:
    """Calls PyTorch's interpolation where it has ONNX's weights, else sums neighbours along one axis after another."""
    axes = _axes(node, x)
    samples = [_samples(node, axis) for axis in axes]
    mode = node.get("mode", b"nearest")
    node.only(mode == b"nearest" or x.is_floating_point(), "of integers")
    if (result := _pytorch_resize(node, x, axes, samples)) is not None:
        return result
    for axis, each in zip(axes, samples, strict=True):
        x = _sampled(node, x, axis.number, each)
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
        node.only(scales is not None, "without sizes and scales")
        assert scales is not None
        factors = [float(scale) for scale in scales]
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


def _coordinates(node: OnnxNode, axis: _Axis) -> tuple[Array, Array]:
    """Returns where each result lies in the operand, and which lie outside (`tf_crop_and_resize`)."""
    placed = node.get("coordinate_transformation_mode", b"half_pixel" if node.opset > 10 else b"asymmetric")
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


def _samples(node: OnnxNode, axis: _Axis) -> _Samples:
    at, outside = _coordinates(node, axis)
    mode, last = node.get("mode", b"nearest"), axis.before - 1
    if mode == b"nearest":
        how = node.get("nearest_mode", b"round_prefer_floor" if node.opset > 10 else b"floor").decode()
        rounded = {
            "round_prefer_floor": np.ceil(at - 0.5), "round_prefer_ceil": np.floor(at + 0.5), "floor": np.floor(at),
            "ceil": np.ceil(at),
        }[how]  # fmt: skip
        positions = np.clip(rounded, 0, last).astype(np.int64)[:, None]
        return _Samples(positions, np.ones(positions.shape), outside)
    reach = {b"linear": 1, b"cubic": 2}[mode]
    shrunk = min(axis.scale, 1.0) if node.get("antialias", 0) else 1.0
    first = math.floor(-reach / shrunk) + 1
    offsets = np.arange(first, 2 - first)
    below = np.floor(at)
    distance = np.abs(offsets[None, :] - (at - below)[:, None]) * shrunk
    weights = np.clip(1 - distance, 0, 1) if reach == 1 else _cubic(distance, node.get("cubic_coeff_a", -0.75))
    weights = weights / weights.sum(1, keepdims=True) if shrunk < 1 else weights
    positions = below[:, None].astype(np.int64) + offsets[None, :]
    if node.get("exclude_outside", 0):
        weights = np.where((positions < 0) | (positions > last), 0.0, weights)
        total = weights.sum(1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    return _Samples(np.clip(positions, 0, last), weights, outside)


def _cubic(distance: Array, a: float) -> Array:
    """Returns Keys' kernel: R. Keys, IEEE Transactions on Acoustics, Speech and Signal Processing 29 (1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _pytorch_resize(node: OnnxNode, x: Tensor, axes: Sequence[_Axis], samples: Sequence[_Samples]) -> Tensor | None:
    """Calls `interpolate` if its weights along each axis are those of ONNX; else returns None."""
    rank = x.dim() - 2
    if not axes or not 1 <= rank <= 3 or axes[0].number < 2 or any(each.outside.any() for each in samples):
        return None
    mode, sized, antialias = node.get("mode", b"nearest"), bool(node.integers(3)), bool(node.get("antialias", 0))
    sizes = {axis.number: axis.after if sized else axis.scale for axis in axes}
    given: Any = [sizes.get(axis, x.shape[axis] if sized else 1.0) for axis in range(2, x.dim())]
    call: Any = {"size": given} if sized else {"scale_factor": given, "recompute_scale_factor": False}
    if mode != b"nearest":
        call["align_corners"] = node.get("coordinate_transformation_mode") == b"align_corners"
    if antialias:
        call["antialias"] = True
    for name, attributes in _interpolations(mode, rank, bool(call.get("align_corners")), antialias):
        theirs = OnnxNode(node.op, attributes, {}, node.wanted)
        if all(
            _same(axis, ours, _samples(theirs, replace(axis, scale=_own_scale(attributes, axis))))
            for axis, ours in zip(axes, samples, strict=True)
        ):
            return F.interpolate(x, mode=name, **call)
    return None


def _interpolations(mode: bytes, rank: int, aligned: bool, antialias: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields modes of `interpolate` with the attributes of `Resize` that mean the same (ATen/native/UpSample.h)."""
    if mode == b"nearest":
        yield "nearest", {"mode": mode, "nearest_mode": b"floor", "coordinate_transformation_mode": b"asymmetric"}
        yield "nearest-exact", {"mode": mode, "nearest_mode": b"round_prefer_ceil"}
        return
    name = _MODES[mode][rank - 1]
    if name and (not antialias or rank == 2):
        placed = b"align_corners" if aligned else b"half_pixel"
        more = {"antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5} if antialias else {}
        yield name, {"mode": mode, "coordinate_transformation_mode": placed, **more}


def _own_scale(attributes: Mapping[str, Any], axis: _Axis) -> float:
    """Returns the scale that PyTorch takes: with aligned corners, that of the sizes."""
    aligned = attributes.get("coordinate_transformation_mode") == b"align_corners"
    return axis.after / axis.before if aligned else axis.scale


def _same(axis: _Axis, ours: _Samples, theirs: _Samples) -> bool:
    """Whether each result has the same weights."""
    dense = [np.zeros((axis.after, axis.before)) for _ in range(2)]
    for matrix, each in zip(dense, (ours, theirs), strict=True):
        for position, weight in zip(each.positions.T, each.weights.T, strict=True):
            np.add.at(matrix, (np.arange(axis.after), position), weight)
    return bool(np.abs(dense[0] - dense[1]).max(initial=0.0) <= _WEIGHTS_APART)


def _sampled(node: OnnxNode, x: Tensor, axis: int, samples: _Samples) -> Tensor:
    """Sums an axis's neighbours, each times its weight."""
    along = [-1 if i == axis else 1 for i in range(x.dim())]
    result: Tensor | None = None
    for positions, weights in zip(samples.positions.T, samples.weights.T, strict=True):
        part = torch.index_select(x, axis, torch.tensor(positions))
        if not (weights == 1).all():
            part = part * torch.tensor(weights).to(x.dtype).reshape(along)
        result = part if result is None else result + part
    assert result is not None, "each result has a neighbour"
    if samples.outside.any():
        value = torch.tensor(node.get("extrapolation_value", 0.0), dtype=x.dtype)
        result = torch.where(torch.tensor(samples.outside).reshape(along), value, result)
    return result


@translates("Upsample", structural=(1,))
def upsample(node: OnnxNode, x: Tensor, _: None = None) -> Tensor:
    scales = node.known(1)
    factors = [float(s) for s in (node.get("scales") if scales is None else scales)]
    node.only(node.get("mode", b"nearest") == b"nearest", "by lines")
    return F.interpolate(x, scale_factor=factors[2:], mode="nearest")


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
