"""Translates ONNX operators that reduce, scan or sort along axes, and matrix products."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional as F

from mindgap.onnx_files.node import OnnxNode, translates

Tensor = torch.Tensor
#: (tensor, axes, keep dimensions) -> reduced.
Reduce = Callable[[Tensor, list[int], bool], Tensor]


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keep)
    return x


def _extreme(function: Any, empty: float) -> Reduce:
    def reduce(x: Tensor, axes: list[int], keep: bool) -> Tensor:
        if any(x.shape[axis] == 0 for axis in axes):
            return torch.full_like(torch.sum(x, axes, keep), empty)
        if x.dtype == torch.bool:
            return function(x.to(torch.uint8), axes, keep).to(torch.bool)
        return function(x, axes, keep)

    return reduce


_REDUCTIONS: Final[dict[str, Reduce]] = {
    "ReduceSum": lambda x, axes, keep: torch.sum(x, axes, keep, dtype=x.dtype),
    "ReduceMean": lambda x, axes, keep: torch.mean(x, axes, keep),
    "ReduceMax": _extreme(torch.amax, float("-inf")),
    "ReduceMin": _extreme(torch.amin, float("inf")),
    "ReduceProd": _product,
    "ReduceL1": lambda x, axes, keep: torch.linalg.vector_norm(x, 1, axes, keep),
    "ReduceL2": lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep),
    "ReduceLogSum": lambda x, axes, keep: torch.log(torch.sum(x, axes, keep)),
    "ReduceLogSumExp": lambda x, axes, keep: torch.logsumexp(x, axes, keep),
    "ReduceSumSquare": lambda x, axes, keep: torch.sum(x * x, axes, keep),
}


def _reduction(reduce: Reduce) -> Callable[..., Tensor]:
    def translate(node: OnnxNode, x: Tensor, _: None = None) -> Tensor:
        axes = node.integers(1, "axes")
        if not axes:
            if node.get("noop_with_empty_axes", 0):
                # Nothing is added up, but what is done to each element still is.
                return reduce(x.unsqueeze(0), [0], False)
            axes = list(range(x.dim()))
        mean_of_none = node.op == "ReduceMean" and any(x.shape[axis] == 0 for axis in axes)
        node.only(not mean_of_none, "of no elements, which ONNX does not define,")
        return reduce(x, [axis % x.dim() for axis in axes], bool(node.get("keepdims", 1)))

    return translate


for _name, _reduce in _REDUCTIONS.items():
    translates(_name, structural=(1,))(_reduction(_reduce))


def _arg(function: Any) -> Callable[..., Tensor]:
    def translate(node: OnnxNode, x: Tensor) -> Tensor:
        axis, keep = node.get("axis", 0), bool(node.get("keepdims", 1))
        if node.get("select_last_index", 0):
            return x.shape[axis] - 1 - function(x.flip(axis), axis, keep)
        return function(x, axis, keep)

    return translate


translates("ArgMax")(_arg(torch.argmax))
translates("ArgMin")(_arg(torch.argmin))


def _scan(function: Callable[..., Tensor], neutral: float) -> Callable[..., Tensor]:
    def translate(node: OnnxNode, x: Tensor, _: None) -> Tensor:
        (axis,) = node.integers(1) or [0]
        turned = x.flip(axis) if node.get("reverse", 0) else x
        if node.get("exclusive", 0):
            first = torch.full_like(turned.narrow(axis, 0, 1), neutral)
            turned = torch.cat([first, turned.narrow(axis, 0, x.shape[axis] - 1)], axis)
        result = function(turned, axis, dtype=x.dtype)
        return result.flip(axis) if node.get("reverse", 0) else result

    return translate


translates("CumSum", structural=(1,))(_scan(torch.cumsum, 0.0))
translates("CumProd", structural=(1,))(_scan(torch.cumprod, 1.0))


@translates("TopK", structural=(1,))
def top_k(node: OnnxNode, x: Tensor, _: None = None) -> tuple[Tensor, Tensor]:
    (count,) = node.integers(1) or [node.get("k")]
    top = torch.topk(x, count, node.get("axis", -1), bool(node.get("largest", 1)), bool(node.get("sorted", 1)))
    return top.values, top.indices


def _over_axis(node: OnnxNode, x: Tensor, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Before operator set 13 the axis was 1 by default, and all dimensions from it on were one."""
    if node.opset >= 13:
        return function(x, node.get("axis", -1))
    axis = node.get("axis", 1) % x.dim()
    if axis == x.dim() - 1:
        return function(x, axis)
    return function(x.flatten(axis), axis).reshape(x.shape)


@translates("Softmax")
def softmax(node: OnnxNode, x: Tensor) -> Tensor:
    return _over_axis(node, x, F.softmax)


@translates("LogSoftmax")
def log_softmax(node: OnnxNode, x: Tensor) -> Tensor:
    return _over_axis(node, x, F.log_softmax)


@translates("Hardmax")
def hardmax(node: OnnxNode, x: Tensor) -> Tensor:
    def largest(y: Tensor, axis: int) -> Tensor:
        return torch.zeros_like(y).scatter(axis, y.argmax(axis, keepdim=True), 1.0)

    return _over_axis(node, x, largest)


@translates("LpNormalization")
def lp_normalization(node: OnnxNode, x: Tensor) -> Tensor:
    return F.normalize(x, node.get("p", 2), node.get("axis", -1))


@translates("Einsum")
def einsum(node: OnnxNode, *operands: Tensor) -> Tensor:
    return torch.einsum(node.get("equation").decode(), *operands)


@translates("MatMul")
def matmul(_: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a, b)


@translates("MatMulInteger")
def matmul_integer(_: OnnxNode, a: Tensor, b: Tensor, az: Tensor | None = None, bz: Tensor | None = None) -> Tensor:
    left = a.to(torch.int32) - (0 if az is None else az.to(torch.int32))
    right = b.to(torch.int32) - (0 if bz is None else bz.to(torch.int32))
    return torch.matmul(left, right)


@translates("Gemm")
def gemm(node: OnnxNode, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    left = a.t() if node.get("transA", 0) else a
    right = b.t() if node.get("transB", 0) else b
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    if c is None:
        return torch.mm(left, right) * alpha
    return torch.addmm(c, left, right, beta=beta, alpha=alpha)
