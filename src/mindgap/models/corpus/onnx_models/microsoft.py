"""Translates operators of `com.microsoft` that transformers use, as ONNX Runtime documents them.

Source: docs/ContribOperators.md of ONNX Runtime. Each is compared with ONNX Runtime in the tests.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from mindgap.models.corpus.onnx_models.layers import conv
from mindgap.models.corpus.onnx_models.node import OnnxNode, translates
from mindgap.models.corpus.onnx_models.reductions import gemm

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


@translates("com.microsoft.QuickGelu")
def quick_gelu(node: OnnxNode, x: Tensor) -> Tensor:
    return x * torch.sigmoid(x * node.get("alpha", 1.702))


@translates("com.microsoft.FusedMatMul")
def fused_matmul(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    node.only(not node.get("transBatchA", 0) and not node.get("transBatchB", 0), "with transposed batches")
    left = a.transpose(-1, -2) if node.get("transA", 0) and a.dim() > 1 else a
    right = b.transpose(-1, -2) if node.get("transB", 0) and b.dim() > 1 else b
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
    found = conv(node, x, weight, bias)
    return _activated(node, found if added is None else found + added)


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
    found = torch.native_layer_norm(total, gamma.shape, gamma, beta, node.get("epsilon", 1e-12))
    return (*found, total)


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
    found = F.layer_norm(total, gamma.shape, gamma, beta, node.get("epsilon", 1e-12))
    return found, counts.to(torch.int32), total


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Rotates pairs of the last dimension. `cos`, `sin`: [batch or 1, 1, sequence, half of the rotated width]."""
    width = 2 * cos.shape[-1]
    turned, kept = x[..., :width], x[..., width:]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        found = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        found = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return torch.cat([found, kept], -1) if kept.shape[-1] else found


def _heads(x: Tensor, count: int) -> Tensor:
    """[batch, sequence, hidden] as [batch, heads, sequence, width]."""
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2) if x.dim() == 3 else x


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


@translates("com.microsoft.RotaryEmbedding")
def rotary_embedding(node: OnnxNode, x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    node.only(node.get("scale", 1.0) == 1.0, "with a scale")
    count = node.get("num_heads", 0) or (x.shape[-1] // (2 * cos.shape[-1]) if x.dim() == 3 else 0)
    heads = _heads(x, count)
    at = positions.to(torch.int64)
    if at.numel() == 1 and at.dim() == 1:
        at = (at + torch.arange(heads.shape[2])).unsqueeze(0)
    found = _rotated(
        heads, F.embedding(at, cos).unsqueeze(1), F.embedding(at, sin).unsqueeze(1), bool(node.get("interleaved", 0))
    )
    return _joined(found) if x.dim() == 3 else found


def _attended(
    q: Tensor, k: Tensor, v: Tensor, scale: float, added: Tensor | None, softcap: float = 0.0,
    sink: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`sink`: [heads], a score for each head that takes part in the softmax and has no value."""
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores if added is None else scores + added
    if sink is None:
        return torch.matmul(torch.softmax(scores, -1), v)
    column = sink.to(scores.dtype).reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.matmul(torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1], v)


def _causal(queries: int, keys: int, filled: float, window: int = -1) -> Tensor:
    """What is added to scores: `filled` where a key is later than its query, or earlier than the window."""
    at = torch.arange(queries).unsqueeze(1) + (keys - queries)
    other = torch.arange(keys).unsqueeze(0)
    hidden = other > at
    if window > 0:
        hidden = hidden | (other <= at - window)
    return torch.where(hidden, torch.tensor(filled), torch.tensor(0.0))


def _total(*parts: Tensor | None) -> Tensor | None:
    given = [part for part in parts if part is not None]
    return sum(given[1:], given[0]) if given else None


def _masked(mask: Tensor | None, filled: float) -> Tensor | None:
    if mask is None:
        return None
    return ((1 - mask.to(torch.float32)) * filled).reshape(mask.shape[0], 1, 1, mask.shape[-1])


@translates("com.microsoft.MultiHeadAttention")
def multi_head_attention(
    node: OnnxNode, q: Tensor, k: Tensor | None = None, v: Tensor | None = None, bias: Tensor | None = None,
    mask: Tensor | None = None, added: Tensor | None = None, past_k: Tensor | None = None,
    past_v: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    node.only(k is not None and v is not None and q.dim() == 3, "with packed operands")
    assert k is not None and v is not None
    node.only(mask is None or (mask.dim() == 2 and mask.shape[0] == q.shape[0]), "with such a mask")
    if bias is not None:
        node.only(k.dim() == 3, "with a bias and keys by head")
        parts = bias.split([q.shape[-1], k.shape[-1], v.shape[-1]])
        q, k, v = q + parts[0], k + parts[1], v + parts[2]
    count, filled = node.get("num_heads"), node.get("mask_filter_value", -10000.0)
    qh, kh, vh = (_heads(each, count) for each in (q, k, v))
    if past_k is not None and past_v is not None:
        kh, vh = torch.cat([past_k, kh], 2), torch.cat([past_v, vh], 2)
    causal = _causal(qh.shape[2], kh.shape[2], filled) if node.get("unidirectional", 0) else None
    scale = node.get("scale", 0.0) or 1 / math.sqrt(qh.shape[-1])
    found = _attended(qh, kh, vh, scale, _total(added, _masked(mask, filled), causal))
    return _joined(found), kh.clone(), vh.clone()


@translates("com.microsoft.Attention")
def attention(
    node: OnnxNode, x: Tensor, weights: Tensor, bias: Tensor | None = None, mask: Tensor | None = None,
    past: Tensor | None = None, added: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    node.only(mask is None or (mask.dim() == 2 and mask.shape[0] == x.shape[0]), "with such a mask")
    node.only(not node.get("do_rotary", 0), "that rotates")
    count, filled = node.get("num_heads"), node.get("mask_filter_value", -10000.0)
    third = weights.shape[1] // 3
    sizes = node.get("qkv_hidden_sizes", [third] * 3)
    whole = torch.matmul(x, weights)
    q, k, v = (_heads(each, count) for each in (whole if bias is None else whole + bias).split(sizes, -1))
    if past is not None:
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
    causal = _causal(q.shape[2], k.shape[2], filled) if node.get("unidirectional", 0) else None
    scale = node.get("scale", 0.0) or 1 / math.sqrt(q.shape[-1])
    found = _attended(q, k, v, scale, _total(added, _masked(mask, filled), causal))
    return _joined(found), torch.stack([k, v])


@translates("com.microsoft.GroupQueryAttention", structural=(5, 6))
def group_query_attention(
    node: OnnxNode, q: Tensor, k: Tensor | None, v: Tensor | None, past_k: Tensor | None, past_v: Tensor | None,
    _: None, __: None, cos: Tensor | None = None, sin: Tensor | None = None, positions: Tensor | None = None,
    added: Tensor | None = None, sink: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Causal attention of groups of heads, with a cache. The sequences of a batch must be of one length."""
    node.only(node.get("kv_num_heads") is not None, "without kv_num_heads")
    node.only(node.get("qk_output", 0) == 0 and not any(node.wanted[3:]), "with its scores as an output")
    node.only(not node.get("kv_cache_bit_width", 0), "with a quantised cache")
    heads, groups = node.get("num_heads"), node.get("kv_num_heads")
    lengths: Any = node.known(5)
    total = int(lengths.reshape(-1)[0]) + 1
    node.only(bool((lengths == total - 1).all()), "with sequences of several lengths")
    if k is None or v is None:
        width = q.shape[-1] // (heads + 2 * groups)
        q, k, v = q.split([heads * width, groups * width, groups * width], -1)
    qh, kh, vh = _heads(q, heads), _heads(k, groups), _heads(v, groups)
    before = total - qh.shape[2]
    node.only(before >= 0, "with fewer positions than queries")
    if node.get("do_rotary", 0) and cos is not None and sin is not None:
        interleaved = bool(node.get("rotary_interleaved", 0))
        if positions is None:
            angles = [table[before:total].unsqueeze(0).unsqueeze(0) for table in (cos, sin)]
        else:
            angles = [F.embedding(positions.to(torch.int64), table).unsqueeze(1) for table in (cos, sin)]
        qh, kh = (_rotated(each, angles[0], angles[1], interleaved) for each in (qh, kh))
    if past_k is not None and past_v is not None:
        node.only(past_k.shape[2] == before, "with a cache that has room left")
        kh, vh = torch.cat([past_k, kh], 2), torch.cat([past_v, vh], 2)
    causal = _causal(qh.shape[2], kh.shape[2], -math.inf, node.get("local_window_size", -1)).to(q.dtype)
    scale = node.get("scale", 0.0) or 1 / math.sqrt(qh.shape[-1])
    wide = [each.repeat_interleave(heads // groups, 1) for each in (kh, vh)]
    if sink is None and node.get("smooth_softmax", 0) > 0:
        sink = torch.zeros(heads)
    found = _attended(qh, wide[0], wide[1], scale, _total(added, causal), node.get("softcap", 0.0), sink)
    return _joined(found), kh.clone(), vh.clone()
