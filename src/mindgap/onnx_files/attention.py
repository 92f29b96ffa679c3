"""Translates the attention of `com.microsoft`, as ONNX Runtime documents it: its optimiser and model builders write it.

Source: docs/ContribOperators.md of ONNX Runtime. Each is compared with ONNX Runtime in the tests.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from mindgap.onnx_files.node import OnnxNode, translates

Tensor = torch.Tensor


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Rotates pairs of the last dimension. `cos`, `sin`: [batch or 1, 1, sequence, half of the rotated width]."""
    width = 2 * cos.shape[-1]
    turned, kept = x[..., :width], x[..., width:]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        rotated = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        rotated = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return torch.cat([rotated, kept], -1) if kept.shape[-1] else rotated


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
    rotated = _rotated(
        heads, F.embedding(at, cos).unsqueeze(1), F.embedding(at, sin).unsqueeze(1), bool(node.get("interleaved", 0))
    )
    return _joined(rotated) if x.dim() == 3 else rotated


def _causal(scores: Tensor, past: int, window: int = -1) -> Tensor:
    """What is added to `scores` [..., queries, keys]: minus infinity where a key is later than its query, or earlier
    than the window. `past`: how many keys are before the first query."""
    queries, keys = scores.shape[-2:]
    at = torch.arange(queries).unsqueeze(1) + past
    other = torch.arange(keys).unsqueeze(0)
    hidden = other > at
    if window > 0:
        hidden = hidden | (other <= at - window)
    return torch.where(hidden, -torch.inf, 0.0).to(scores.dtype)


def _masked(node: OnnxNode, mask: Tensor, scores: Tensor) -> Tensor:
    """What is added to `scores` [batch, heads, queries, keys]: the node's filter value for keys that the mask hides.

    `mask`: [batch] of ends, [2 * batch] of ends and starts, [3 * batch + 2] that begins with ends; or 0 where hidden:
    [batch, keys], [batch, queries, keys], [batch, 1, positions, positions].
    """
    batch, _, queries, keys = scores.shape
    filled = max(node.get("mask_filter_value", -10000.0), torch.finfo(scores.dtype).min)
    if mask.dim() == 1:
        node.only(mask.numel() in (batch, 2 * batch, 3 * batch + 2), "with such a mask")
        at = torch.arange(keys)
        hidden = at >= mask[:batch].unsqueeze(1)
        if mask.numel() == 2 * batch:
            hidden = hidden | (at < mask[batch:].unsqueeze(1))
    else:
        hidden = (mask[:, 0, keys - queries : keys, :keys] if mask.dim() == 4 else mask) <= 0
    node.only(hidden.shape in ((batch, keys), (batch, queries, keys)), "with such a mask")
    return torch.where(hidden.reshape(batch, 1, -1, keys), filled, 0.0).to(scores.dtype)


def _masked_attention(
    node: OnnxNode, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, added: Tensor | None, past: int
) -> Tensor:
    """The result [batch, queries, hidden]. `q`, `k`, `v`: by head. `past`: keys before the first query."""
    scores = torch.matmul(q, k.transpose(-1, -2)) * (node.get("scale", 0.0) or 1 / math.sqrt(q.shape[-1]))
    if added is not None:
        scores = scores + added
    if mask is not None:
        scores = scores + _masked(node, mask, scores)
    if node.get("unidirectional", 0):
        node.only(k.shape[2] - past == q.shape[2], "that is causal, with other keys than of its queries")
        scores = scores + _causal(scores, past)
    return _joined(torch.matmul(torch.softmax(scores, -1), v))


@translates("com.microsoft.MultiHeadAttention")
def multi_head_attention(
    node: OnnxNode, q: Tensor, k: Tensor | None = None, v: Tensor | None = None, bias: Tensor | None = None,
    mask: Tensor | None = None, added: Tensor | None = None, past_k: Tensor | None = None,
    past_v: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """With keys and values by head, the bias is of the queries alone.

    Queries, keys and values may be packed in one tensor [batch, queries, heads, 3, size], or keys and values in one
    [batch, keys, heads, 2, size].
    """
    if q.dim() == 5:
        q, k, v = (each.flatten(2) for each in q.unbind(3))
    elif k is not None and v is None and k.dim() == 5:
        node.only(bias is None, "with a bias and packed keys and values")
        k, v = (each.flatten(2) for each in k.unbind(3))
    node.only(k is not None and v is not None and q.dim() == 3, "with such operands")
    assert k is not None and v is not None
    if bias is not None:
        parts = bias.split([q.shape[-1], q.shape[-1], bias.numel() - 2 * q.shape[-1]])
        q = q + parts[0]
        if k.dim() == 3:
            k, v = k + parts[1], v + parts[2]
    qh, kh, vh = (_heads(each, node.get("num_heads")) for each in (q, k, v))
    if past_k is not None and past_v is not None:
        kh, vh = torch.cat([past_k, kh], 2), torch.cat([past_v, vh], 2)
    past = 0 if past_k is None else past_k.shape[2]
    return _masked_attention(node, qh, kh, vh, mask, added, past), kh.clone(), vh.clone()


@translates("com.microsoft.Attention")
def attention(
    node: OnnxNode, x: Tensor, weights: Tensor, bias: Tensor | None = None, mask: Tensor | None = None,
    past: Tensor | None = None, added: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    whole = torch.matmul(x, weights)
    return packed_attention(node, whole if bias is None else whole + bias, mask, past, added)


def packed_attention(
    node: OnnxNode, qkv: Tensor, mask: Tensor | None = None, past: Tensor | None = None, added: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Attention of queries, keys and values [batch, sequence, 3 * hidden]. `past`: [2, batch, heads, keys, width]."""
    node.only(not node.get("do_rotary", 0), "that rotates")
    third = qkv.shape[-1] // 3
    parts = qkv.split(node.get("qkv_hidden_sizes", [third] * 3), -1)
    q, k, v = (_heads(each, node.get("num_heads")) for each in parts)
    if past is not None:
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
    result = _masked_attention(node, q, k, v, mask, added, 0 if past is None else past.shape[3])
    return (result, torch.stack([k, v])) if any(node.wanted[1:]) else (result,)


@translates("com.microsoft.GroupQueryAttention", structural=(5, 6))
def group_query_attention(node: OnnxNode, q: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
    """Causal attention of groups of heads, with a cache. Sequences of several lengths are computed one by one."""
    node.only(node.get("kv_num_heads") is not None, "without kv_num_heads")
    node.only(node.get("qk_output", 0) == 0 and not any(node.wanted[3:]), "with its scores as an output")
    node.only(not node.get("kv_cache_bit_width", 0), "with a quantised cache")
    lengths: Any = node.known(5)
    totals = [int(each) + 1 for each in lengths.reshape(-1)]
    operands = (q, *others, *[None] * (11 - len(others)))
    if len(set(totals)) == 1:
        return _grouped(node, totals[0], *operands)
    batched = (0, 1, 2, 3, 4, 9, 10)
    ones = [
        [x[i : i + 1] if n in batched and x is not None and len(x) == len(q) else x for n, x in enumerate(operands)]
        for i in range(len(totals))
    ]
    results = [_grouped(node, total, *one) for total, one in zip(totals, ones, strict=True)]
    longest = max(keys.shape[2] for _, keys, _ in results)
    padded = [[x, *(F.pad(y, (0, 0, 0, longest - y.shape[2])) for y in kept)] for x, *kept in results]
    return tuple(torch.cat(parts) for parts in zip(*padded, strict=True))


def _grouped(
    node: OnnxNode, total: int, q: Any, k: Any, v: Any, past_k: Tensor | None, past_v: Tensor | None, _: Any, __: Any,
    cos: Tensor | None, sin: Tensor | None, positions: Tensor | None, added: Tensor | None, sink: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """`total`: positions with the queries. A cache with room for more keeps its size, with zeros there."""
    heads, groups = node.get("num_heads"), node.get("kv_num_heads")
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
    room = 0
    if past_k is not None and past_v is not None:
        node.only(past_k.shape[2] >= before, "with fewer positions in its cache than there were")
        room = max(past_k.shape[2] - total, 0)
        kh, vh = torch.cat([past_k[:, :, :before], kh], 2), torch.cat([past_v[:, :, :before], vh], 2)
    wide = [each.repeat_interleave(heads // groups, 1) for each in (kh, vh)]
    if sink is None and node.get("smooth_softmax", 0) > 0:
        sink = torch.zeros(heads)
    result = _grouped_attention(node, qh, wide[0], wide[1], before, added, sink)
    return _joined(result), F.pad(kh, (0, 0, 0, room)), F.pad(vh, (0, 0, 0, room))


def _grouped_attention(
    node: OnnxNode, q: Tensor, k: Tensor, v: Tensor, before: int, added: Tensor | None, sink: Tensor | None
) -> Tensor:
    """`sink`: [heads], a score for each head that takes part in the softmax and has no value."""
    scale, softcap = node.get("scale", 0.0) or 1 / math.sqrt(q.shape[-1]), node.get("softcap", 0.0)
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores if added is None else scores + added
    scores = scores + _causal(scores, before, node.get("local_window_size", -1))
    if sink is None:
        return torch.matmul(torch.softmax(scores, -1), v)
    column = sink.to(scores.dtype).reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.matmul(torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1], v)
