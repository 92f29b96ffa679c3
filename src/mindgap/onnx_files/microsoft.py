"""Translates operators of `com.microsoft` that transformers use, as ONNX Runtime documents them.

Source: docs/ContribOperators.md of ONNX Runtime. Each is compared with ONNX Runtime in the tests.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional as F

from mindgap.onnx_files.layers import conv
from mindgap.onnx_files.node import OnnxNode, translates
from mindgap.onnx_files.reductions import gemm

Tensor = torch.Tensor


@translates("com.microsoft.Gelu")
def gelu(_: OnnxNode, x: Tensor) -> Tensor:
    return F.gelu(x)


@translates("com.microsoft.BiasGelu")
def bias_gelu(_: OnnxNode, x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


@translates("com.microsoft.FastGelu")
def fast_gelu(_: OnnxNode, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@translates("com.microsoft.GemmFastGelu")
def gemm_fast_gelu(_: OnnxNode, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = torch.matmul(x, weight)
    return F.gelu(product if bias is None else product + bias, approximate="tanh")


@translates("com.microsoft.QuickGelu")
def quick_gelu(node: OnnxNode, x: Tensor) -> Tensor:
    return x * torch.sigmoid(x * node.get("alpha", 1.702))


@translates("com.microsoft.FusedMatMul")
def fused_matmul(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    # The batch of an operand whose rows come first lies behind them.
    left, right = (
        each.movedim(0, -2) if node.get(f"transBatch{side}", 0) and each.dim() > 2 else each
        for side, each in (("A", a), ("B", b))
    )
    left = left.transpose(-1, -2) if node.get("transA", 0) and a.dim() > 1 else left
    right = right.transpose(-1, -2) if node.get("transB", 0) and b.dim() > 1 else right
    alpha = node.get("alpha", 1.0)
    return torch.matmul(left, right) if alpha == 1.0 else torch.matmul(left, right) * alpha


def _activated(node: OnnxNode, x: Tensor) -> Tensor:
    name, given = node.get("activation", b"").decode(), node.get("activation_params", [])
    plain: dict[str, Callable[[Tensor], Tensor]] = {
        "": torch.clone,
        "Relu": F.relu,
        "Sigmoid": torch.sigmoid,
        "Tanh": torch.tanh,
    }
    if name in plain:
        return plain[name](x)
    node.only(name in ("LeakyRelu", "Clip", "HardSigmoid"), f"with {name}")
    if name == "LeakyRelu":
        return F.leaky_relu(x, given[0] if given else node.get("activation_alpha", 0.01))
    if name == "Clip":
        return torch.clamp(x, *given)
    return torch.clamp(x * given[0] + given[1], 0.0, 1.0)


@translates("com.microsoft.FusedConv")
def fused_conv(
    node: OnnxNode, x: Tensor, weight: Tensor, bias: Tensor | None = None, added: Tensor | None = None
) -> Tensor:
    result = conv(node, x, weight, bias)
    return _activated(node, result if added is None else result + added)


@translates("com.microsoft.FusedGemm")
def fused_gemm(node: OnnxNode, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    return _activated(node, gemm(node, a, b, c))


def _rms(x: Tensor, scale: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, scale.shape, scale, eps)


@translates("SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization")
def simplified_layer_norm(node: OnnxNode, x: Tensor, scale: Tensor) -> Tensor:
    node.only(node.get("axis", -1) % x.dim() == x.dim() - 1, "over more than the last dimension")
    return _rms(x, scale, node.get("epsilon", 1e-5))


def _summed(x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    return x + skip if bias is None else x + skip + bias


@translates("com.microsoft.SkipLayerNormalization")
def skip_layer_norm(
    node: OnnxNode, x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    total = _summed(x, skip, bias)
    normalised = torch.native_layer_norm(total, gamma.shape, gamma, beta, node.get("epsilon", 1e-12))
    return (*normalised, total)


@translates("com.microsoft.SkipSimplifiedLayerNormalization")
def skip_simplified_layer_norm(
    node: OnnxNode, x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    node.only(not any(node.wanted[1:3]), "with its statistics")
    total = _summed(x, skip, bias)
    return _rms(total, gamma, node.get("epsilon", 1e-12)), total, total, total


@translates("com.microsoft.EmbedLayerNormalization")
def embed_layer_norm(
    node: OnnxNode, ids: Tensor, segments: Tensor | None, words: Tensor, positions: Tensor, types: Tensor | None,
    gamma: Tensor, beta: Tensor, mask: Tensor | None = None, at: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    places = torch.arange(ids.shape[1]).unsqueeze(0) if at is None else at.to(torch.int64)
    total = F.embedding(ids.to(torch.int64), words) + F.embedding(places, positions)
    if types is not None and segments is not None:
        total = total + F.embedding(segments.to(torch.int64), types)
    counts = ids.new_zeros(ids.shape[0]) if mask is None else mask.sum(1, dtype=torch.int64)
    normalised = F.layer_norm(total, gamma.shape, gamma, beta, node.get("epsilon", 1e-12))
    return normalised, counts.to(torch.int32), total
