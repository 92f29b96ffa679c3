"""Programs that only round, and a platform that rounds otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from judge.oracle.applied import normal
from mindgap.graph import Graph

#: Operators that move or choose: no platform's rounding touches them.
EXACT = frozenset(
    {
        "view", "view_as_real", "complex", "reshape", "flatten", "permute", "transpose", "t",
        "expand", "slice", "select", "unsqueeze", "squeeze",
        "topk", "sort", "max", "argmax", "where", "masked_fill", "index", "relu", "abs", "neg", "sign", "round",
        "floor", "clamp", "roll", "to", "_to_copy", "one_hot", "clone", "contiguous", "cat", "numpy_T", "nan_to_num",
        "max_pool2d", "max_pool2d_with_indices", "zeros", "full", "arange", "ones", "alias", "detach", "copy", "stack",
    }
)  # fmt: skip


def last_bits(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
    """Every computed number moved by about one last bit, up or down."""
    packet = graph.nodes[index].op.split(".")[1]
    generator = torch.Generator().manual_seed(index)
    if packet.rstrip("_") in EXACT or not isinstance(result, torch.Tensor) or not result.is_floating_point():
        return result
    signs = torch.empty(result.shape).bernoulli_(0.5, generator=generator) * 2 - 1
    moved = (result.double() * (1 + torch.finfo(result.dtype).eps * signs)).to(result.dtype)
    return result.copy_(moved) if packet.endswith("_") else moved


def moe(x: torch.Tensor) -> torch.Tensor:
    weight, experts = (normal(8, 16, seed=5), normal(8, 16, 16, seed=6, scale=0.25))
    best, which = F.softmax(x @ weight.t().to(x.dtype), -1).topk(2, -1)
    return (torch.einsum("ti,tkij->tkj", x, experts.to(x.dtype)[which]) * best[..., None]).sum(1)


def deep(x: torch.Tensor) -> torch.Tensor:
    for layer in range(12):
        x = x + F.layer_norm(F.gelu(x @ normal(16, 16, seed=layer, scale=0.3).to(x.dtype)), (16,))
    return x


def masked_attention(x: torch.Tensor) -> torch.Tensor:
    q = x.reshape(1, 2, 8, -1)
    mask = torch.zeros(8, 8, dtype=torch.bool)
    mask[2:, :3] = True
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)


PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "deep": deep, "moe": moe, "masked attention": masked_attention,
    "long cumsum": lambda x: torch.cumsum(x.flatten(), 0),
    "cumprod": lambda x: torch.cumprod(x.flatten() * 0.1 + 1, 0),
    "softmax of a huge range": lambda x: F.softmax(x * 1000, -1) @ x.t(),
    "norm of nearly constant rows": lambda x: F.layer_norm(x * 1e-4 + 300, (16,)),
    "variance of a large offset": lambda x: (x + 1e4).var(-1),
    "logsumexp": lambda x: torch.logsumexp(x * 100, -1),
    "norm of tiny numbers": lambda x: torch.linalg.vector_norm(x * 1e-22, dim=-1),
    "large angles": lambda x: torch.sin(x * 1e6) + torch.cos(x * 1e5),
    "large exponents": lambda x: (x.abs() + 0.5) ** 37.5,
    "odd sizes": lambda x: F.interpolate(x.reshape(1, 1, 8, -1), size=(13, 7), mode="bicubic"),
    "rounding to quarters": lambda x: torch.round(x * 4) / 4,
    "casts": lambda x: (x * 10).to(torch.int32).float() * x,
    "routing by sign": lambda x: torch.where(x.mean(-1, keepdim=True) > 0, x, -x),
    "cancellation": lambda x: ((x + 1e4) - 1e4) * 100,
    "differences below": lambda x: x / (x - x.roll(1, 0)),
    "steps": lambda x: torch.floor(x * x.roll(1, 0) * 8),
    "remainders": lambda x: torch.remainder(x * 100, 0.7),
    "quantised": lambda x: torch.clamp(torch.round(x / 0.05), -128, 127).to(torch.int8).to(x.dtype) * 0.05,
    "masked by the smallest": lambda x: F.softmax(x.masked_fill(x > 0, torch.finfo(x.dtype).min), -1),
    "rows masked out": lambda x: torch.nan_to_num(F.softmax(x.masked_fill(x > -3, float("-inf")), -1)),
    "tiny variance": lambda x: F.batch_norm(x, torch.zeros(16).to(x.dtype), torch.full((16,), 1e-7).to(x.dtype)),
    "subnormal": lambda x: (x * 1e-39) * 1e30,
    "counts": lambda x: (F.softmax(x, -1) > 0.0625).sum(-1),
    "complex rotation": lambda x: torch.view_as_real(
        torch.polar(torch.ones(8, 16), x.float() * 100) * torch.complex(x.float(), x.float())
    ),
    "loss": lambda x: F.cross_entropy(x * 50, torch.arange(8)),
}  # fmt: skip
