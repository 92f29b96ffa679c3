"""Defines small programs that call many operators, for fault injection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

#: Its functions have no types.
fft: Any = torch.fft
Draw = Callable[..., torch.Tensor]
SubjectProgram = tuple[Callable[..., Any], tuple[Any, ...]]


def _mlp(draw: Draw) -> SubjectProgram:
    def call(x: Any, w: Any, b: Any, g: Any, v: Any) -> Any:
        h = F.layer_norm(F.gelu(F.linear(x, w, b)), (32,), g, b)
        return torch.softmax(F.linear(h, v), -1)

    return call, (draw(8, 16), draw(32, 16), draw(32), draw(32), draw(10, 32))


def _convnet(draw: Draw) -> SubjectProgram:
    def call(x: Any, w: Any, b: Any, m: Any, v: Any, k: Any) -> Any:
        h = F.batch_norm(F.conv2d(x, w, b, stride=2, padding=1), m, v.abs() + 0.5, b, m)
        h = F.max_pool2d(F.relu(h), 3, 2, ceil_mode=True)
        h = F.avg_pool2d(F.conv2d(h, k, None, padding=1, groups=2), 3, 1, 1)
        return F.leaky_relu(h).mean((2, 3))

    return call, (draw(2, 3, 17, 17), draw(8, 3, 3, 3), draw(8), draw(8), draw(8), draw(8, 4, 3, 3))


def _attention(draw: Draw) -> SubjectProgram:
    def call(x: Any, w: Any, o: Any, g: Any) -> Any:
        q, k, v = F.linear(F.layer_norm(x, (32,), g), w).view(2, 9, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + F.linear(h.transpose(1, 2).reshape(2, 9, 32), o)

    return call, (draw(2, 9, 32), draw(96, 32), draw(32, 32), draw(32))


def _recurrent(draw: Draw) -> SubjectProgram:
    def call(x: Any, w: Any, u: Any, b: Any) -> Any:
        h, c = x.new_zeros(4, 8), x.new_zeros(4, 8)
        for t in range(3):
            i, f, g, o = (torch.addmm(b, x[:, t], w) + h @ u).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h, c

    return call, (draw(4, 3, 6), draw(6, 32), draw(8, 32), draw(32))


def _pointwise(draw: Draw) -> SubjectProgram:
    def call(x: Any, y: Any) -> Any:
        a = torch.exp(x.clamp(-3, 2)) + torch.log1p(y.abs())
        b = torch.rsqrt(a) * torch.sin(x) - torch.pow(a, 1.5) / (1 + y * y)
        c = torch.where(x > 0, F.silu(b), torch.erf(y))
        return torch.addcmul(c, x, y, value=0.25), torch.lerp(a, c, 0.3), torch.hypot(a, b)

    return call, (draw(9, 11), draw(9, 11))


def _reductions(draw: Draw) -> SubjectProgram:
    def call(x: Any) -> Any:
        y = x.cumsum(1) - x.mean(2, keepdim=True)
        over_rows = torch.logsumexp(y, 1), y.norm(dim=1), y.std(1, keepdim=True).squeeze(1)
        return *over_rows, y.var(2), y.amax(0), y.sum((0, 2)), (y * 0.1 + 1).prod(0)

    return call, (draw(4, 7, 12),)


def _movement(draw: Draw) -> SubjectProgram:
    def call(x: Any, index: Any) -> Any:
        a = torch.cat([x, x.flip(1)], 1).transpose(0, 1)
        b = F.pad(a.index_select(0, index), (1, 2), value=0.5).roll(1, 0)
        c = torch.stack([b, b * 2], 1).reshape(-1, b.shape[-1]).expand(2, -1, -1)
        return c.gather(1, index.view(1, -1, 1).expand(2, -1, c.shape[-1])) + 1, torch.tril(b)

    return call, (draw(5, 6), torch.tensor([3, 0, 7, 7]))


def _normalised(draw: Draw) -> SubjectProgram:
    def call(x: Any, w: Any, g: Any) -> Any:
        h = F.group_norm(F.conv_transpose2d(x, w, stride=2), 2, g, g)
        h = F.interpolate(F.hardswish(h), scale_factor=2.0, mode="bilinear")
        return F.adaptive_avg_pool2d(F.instance_norm(h), 3), F.log_softmax(h.flatten(2), -1)

    return call, (draw(2, 4, 5, 5), draw(4, 6, 3, 3), draw(6))


def _exceptional(draw: Draw) -> SubjectProgram:
    def call(x: Any, y: Any) -> Any:
        a = torch.log(x)
        b = y / (y - y.round()).clamp_min(0)
        return torch.maximum(a, y) + 1, b * 2, torch.where(torch.isnan(a), x, a), torch.sqrt(b)

    return call, (draw(6, 8), draw(6, 8).mul(2).round().div(2))


def _subnormal(draw: Draw) -> SubjectProgram:
    def call(x: Any) -> Any:
        return (x * 1e-39) * 1e30 + x * 1e-9, torch.exp(-x.abs() - 90) * 1e38

    return call, (draw(6, 8),)


def _in_place(draw: Draw) -> SubjectProgram:
    def call(x: Any, y: Any) -> Any:
        a = x * 2
        a.add_(y, alpha=0.5)
        a[:, 1:3].mul_(y[:, :2])
        return F.relu_(a[1:] - 0.1), a.tanh_()

    return call, (draw(6, 8), draw(6, 8))


def _discrete(draw: Draw) -> SubjectProgram:
    def call(x: Any, table: Any, tokens: Any) -> Any:
        h = F.embedding(tokens, table) + x
        values, positions = h.topk(3, -1)
        return values.sum(-1), positions, h.argmax(1), torch.sort(h.mean(1), -1).values, (h > 0).sum(-1), tokens * 3 - 1

    return call, (draw(4, 7, 8), draw(20, 8), torch.arange(28).view(4, 7) % 20)


def _spectral(draw: Draw) -> SubjectProgram:
    def call(x: Any) -> Any:
        z: Any = fft.rfft(x) * (1 + 2j)
        return fft.irfft(z, n=16), z.abs(), torch.einsum("bi,bj->ij", x, x)

    return call, (draw(5, 16),)


#: Name -> the program with its arguments, from a way to draw floats of the wanted dtype.
PROGRAMS: dict[str, Callable[[Draw], SubjectProgram]] = {
    "mlp": _mlp,
    "convnet": _convnet,
    "attention": _attention,
    "recurrent": _recurrent,
    "pointwise": _pointwise,
    "reductions": _reductions,
    "movement": _movement,
    "normalised": _normalised,
    "exceptional": _exceptional,
    "subnormal": _subnormal,
    "in_place": _in_place,
    "discrete": _discrete,
    "spectral": _spectral,
}
