"""Operands that provoke rounding, cancellation, overflow and underflow; calls of many operators on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from judge.oracle.applied import normal as N


def nasty(dt: torch.dtype, shape: tuple[int, ...]) -> Iterator[tuple[str, torch.Tensor]]:
    n = torch.Size(shape).numel()
    big = torch.finfo(dt).max
    tiny = torch.finfo(dt).tiny
    yield "normal", N(*shape, dtype=dt)
    yield "offset", N(*shape, dtype=dt, shift=1000.0)
    yield "offset+", N(*shape, dtype=torch.float64, scale=1e-3, shift=100.0).to(dt)
    yield "tiny", N(*shape, dtype=torch.float64, scale=tiny * 4).to(dt)
    yield "sub", N(*shape, dtype=torch.float64, scale=tiny / 16).to(dt)
    yield "big", (N(*shape, dtype=torch.float64).clamp(-3, 3) * (big / 4)).to(dt)
    yield "bigish", (N(*shape, dtype=torch.float64) * (big**0.5)).to(dt)
    w = torch.exp(N(*shape, dtype=torch.float64, seed=3) * 6) * torch.sign(N(*shape, dtype=torch.float64))
    yield "wide", w.to(dt)
    c = N(*shape, dtype=torch.float64)
    f = c.flatten()
    h = n // 2
    f[h : 2 * h] = -f[:h]
    yield "cancel", f.reshape(shape).to(dt)
    yield "const", torch.full(shape, 0.1, dtype=dt)
    s = N(*shape, dtype=dt).flatten().clone()
    sp = torch.tensor(
        [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, big, -big, tiny, -tiny, 1, -1, 0.5, -0.5], dtype=dt
    )
    k = min(len(sp), n)
    s[:k] = sp[:k]
    yield "special", s.reshape(shape)


def calls(x: torch.Tensor) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    dt = x.dtype
    d = x.shape[-1]
    U = [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "sin",
        "cos",
        "tan",
        "erf",
        "erfc",
        "erfinv",
        "tanh",
        "sigmoid",
        "silu",
        "hardswish",
        "hardsigmoid",
        "lgamma",
        "digamma",
        "i0",
        "mish",
        "softplus",
        "log_sigmoid",
        "elu",
        "selu",
        "celu",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "abs",
        "neg",
        "floor",
        "ceil",
        "trunc",
        "round",
        "sign",
        "relu",
        "relu6",
        "frac",
        "square",
        "hardtanh",
        "leaky_relu",
        "hardshrink",
        "softshrink",
        "angle",
        "sinc",
        "deg2rad",
        "rad2deg",
        "logit",
        "nan_to_num",
        "special_erfcx",
        "special_ndtri",
        "special_log_ndtr",
        "special_entr",
        "special_i0e",
        "special_i1",
        "special_i1e",
        "special_ndtr",
        "special_bessel_j0",
        "special_bessel_j1",
        "special_scaled_modified_bessel_k0",
    ]
    for u in U:
        yield f"aten.{u}.default", (x,), {}
    y = torch.roll(x, 1, -1)
    yield "aten.gelu.default", (x,), {}
    yield "aten.gelu.default", (x,), {"approximate": "tanh"}
    for b in ["add", "sub", "mul", "div", "fmod", "remainder", "floor_divide"]:
        ov = "default" if b == "floor_divide" else "Tensor"
        yield f"aten.{b}.{ov}", (x, y), {}
    yield "aten.add.Tensor", (x, y), {"alpha": 0.3}
    yield "aten.sub.Tensor", (x, y), {"alpha": 3}
    for b in [
        "atan2",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "nextafter",
        "heaviside",
    ]:
        yield f"aten.{b}.default", (x, y), {}
    yield "aten.xlogy.Tensor", (x, y), {}
    yield "aten.special_xlog1py.default", (x, y), {}
    for e in (2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 7.3, 0.0, 30.0):
        yield "aten.pow.Tensor_Scalar", (x, e), {}
    yield "aten.pow.Scalar", (1.7, x), {}
    yield "aten.pow.Tensor_Tensor", (x.abs(), y), {}
    for op in ["addcmul", "addcdiv"]:
        yield f"aten.{op}.default", (x, y, torch.roll(x, 2, -1)), {"value": 0.7}
    yield "aten.lerp.Scalar", (x, y, 0.3), {}
    yield "aten.lerp.Tensor", (x, y, torch.sigmoid(x)), {}
    for s in [0.1, 2.0, 1e-3, 3]:
        yield "aten.mul.Tensor", (x, s), {}
        yield "aten.add.Tensor", (x, s), {}
        yield "aten.div.Tensor", (x, s), {}
        yield "aten.remainder.Scalar", (x, s), {}
    yield "aten.rsub.Scalar", (x, 1.0), {}
    yield "aten.clamp.default", (x, -0.3, 0.7), {}
    yield "aten.glu.default", (x[..., : d // 2 * 2], -1), {}
    yield "aten.threshold.default", (x, 0.1, 0.0), {}
    # reductions
    for dim in ([-1], [0]):
        for r in ["sum", "mean", "amax", "amin", "logsumexp"]:
            ov = {"sum": "dim_IntList", "mean": "dim", "amax": "default", "amin": "default", "logsumexp": "default"}[r]
            yield f"aten.{r}.{ov}", (x, dim, True), {}
        for r in ["var", "std", "var_mean", "std_mean"]:
            yield f"aten.{r}.correction", (x, dim), {"correction": 1}
        for p in (2.0, 1.0, 3.0, float("inf"), 0.5):
            yield "aten.linalg_vector_norm.default", (x, p, dim), {}
        yield "aten.nansum.default", (x, dim), {}
    yield "aten.sum.default", (x,), {}
    yield "aten.mean.default", (x,), {}
    yield "aten.prod.default", (x,), {}
    for op in ["cumsum", "cumprod", "logcumsumexp"]:
        yield f"aten.{op}.default", (x, -1), {}
    yield "aten.softmax.int", (x, -1), {}
    yield "aten.log_softmax.int", (x, -1), {}
    yield "aten.softmax.int", (x, 0), {}
    yield "aten.prod.dim_int", (x, -1), {}
    for _ in [0]:
        yield "aten.layer_norm.default", (x, [d], N(d, seed=5, dtype=dt), N(d, seed=6, dtype=dt)), {}
        yield "aten.layer_norm.default", (x, [d]), {}
    yield "aten.rms_norm.default", (x, [d], N(d, seed=5, dtype=dt)), {}
    yield "aten.mm.default", (x, x.t().contiguous()), {}
    yield "aten.addmm.default", (N(x.shape[0], seed=8, dtype=dt), x, x.t().contiguous()), {"beta": 0.5, "alpha": 2}
    yield "aten.mv.default", (x, N(d, seed=9, dtype=dt)), {}
    yield "aten.linear.default", (x, N(5, d, seed=10, dtype=dt), N(5, seed=11, dtype=dt)), {}
    yield "aten.bmm.default", (x.reshape(2, -1, d), x.reshape(2, -1, d).transpose(1, 2).contiguous()), {}
    yield "aten.cdist.default", (x, torch.roll(x, 1, 0)), {}
    yield "aten.cosine_similarity.default", (x, y), {}
    yield "aten.pairwise_distance.default", (x, y), {}
    for op in ["mse_loss", "smooth_l1_loss", "l1_loss", "huber_loss"]:
        yield f"aten.{op}.default", (x, y), {}
        yield f"aten.{op}.default", (x, y, 0), {}
    yield "aten.cross_entropy_loss.default", (x, torch.arange(x.shape[0]) % d), {}
    yield "aten.kl_div.default", (x, y.abs()), {}
    yield "aten.binary_cross_entropy_with_logits.default", (x, torch.sigmoid(y)), {}
    yield "aten.binary_cross_entropy.default", (torch.sigmoid(x), torch.sigmoid(y)), {}
    img = x.reshape(2, 4, 4, -1)
    yield "aten.group_norm.default", (img, 2, N(4, seed=5, dtype=dt), N(4, seed=6, dtype=dt)), {}
    yield (
        "aten.batch_norm.default",
        (
            img,
            N(4, seed=5, dtype=dt),
            N(4, seed=6, dtype=dt),
            N(4, seed=7, dtype=dt),
            N(4, seed=8, dtype=dt).abs(),
            False,
            0.1,
            1e-5,
            False,
        ),
        {},
    )
    yield (
        "aten.native_batch_norm.default",
        (img, N(4, seed=5, dtype=dt), N(4, seed=6, dtype=dt), None, None, True, 0.1, 1e-5),
        {},
    )
    yield "aten.instance_norm.default", (img, None, None, None, None, True, 0.1, 1e-5, False), {}
    yield "aten.conv2d.default", (img, N(3, 4, 3, 3, seed=5, dtype=dt), N(3, seed=6, dtype=dt), [1, 1], [1, 1]), {}
    yield "aten.conv2d.default", (img, N(4, 1, 3, 3, seed=5, dtype=dt), None, [2, 2], [1, 1], [1, 1], 4), {}
    yield "aten.conv_transpose2d.input", (img, N(4, 3, 3, 3, seed=5, dtype=dt), N(3, seed=6, dtype=dt), [2, 2]), {}
    yield "aten.avg_pool2d.default", (img, [3, 3], [2, 2], [1, 1]), {}
    yield "aten.adaptive_avg_pool2d.default", (img, [3, 5]), {}
    yield "aten.max_pool2d.default", (img, [3, 3], [2, 2], [1, 1]), {}
    for m, a in (("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True)):
        yield f"aten.upsample_{m}2d.default", (img, [7, 13], a), {}
        yield f"aten.upsample_{m}2d.default", (img, [3, 2], a), {}
        yield f"aten._upsample_{m}2d_aa.default", (img, [3, 7], a), {}
    for _ in [0]:
        grid = torch.tanh(N(2, 5, 6, 2, seed=4, dtype=dt)) * 1.2
        for mode in (0, 1, 2):
            for pad in (0, 1, 2):
                yield "aten.grid_sampler_2d.default", (img, grid.to(dt), mode, pad, False), {}
    yield "aten.copysign.Tensor", (x, y), {}
    q = x.reshape(1, 2, -1, 8) if x.numel() % 16 == 0 else None
    if q is not None:
        yield "aten.scaled_dot_product_attention.default", (q, q.roll(1, -2).contiguous(), q.flip(-2).contiguous()), {}
        yield (
            "aten.scaled_dot_product_attention.default",
            (q, q.roll(1, -2).contiguous(), q.flip(-2).contiguous(), None, 0.0, True),
            {},
        )
        mask = torch.rand(q.shape[-2], q.shape[-2], generator=torch.Generator().manual_seed(0)) > 0.5
        mask[0] = False
        yield "aten.scaled_dot_product_attention.default", (q, q, q, mask), {}
    idx = torch.arange(d).expand_as(x) % 3
    yield "aten.scatter_add.default", (torch.zeros_like(x), 1, idx.contiguous(), x), {}
    yield "aten.index_add.default", (x, 0, torch.tensor([0, 0, 1, 1]), x[:4].contiguous()), {}
    for red in ("sum", "mean", "prod", "amax"):
        yield "aten.scatter_reduce.two", (x, 1, idx.contiguous(), x.flip(0).contiguous(), red), {}
    yield "aten.trapezoid.x", (x, y), {}
    if dt == torch.float32:
        yield "aten.fft_fft.default", (x,), {}
        yield "aten.fft_rfft.default", (x,), {}
        yield "aten.linalg_inv_ex.default", (x[:8, :8].contiguous(),), {}
        yield "aten.linalg_svdvals.default", (x,), {}
        z = torch.complex(x, y)
        for u in [
            "exp",
            "log",
            "sqrt",
            "sin",
            "tanh",
            "reciprocal",
            "abs",
            "angle",
            "sigmoid",
            "sum",
            "prod",
            "sgn",
            "cos",
            "asin",
            "acosh",
            "atan",
        ]:
            yield f"aten.{u}.default", (z,), {}
        yield "aten.mul.Tensor", (z, z.roll(1, 0)), {}
        yield "aten.div.Tensor", (z, z.roll(1, 0)), {}
        yield "aten.mm.default", (z, z.t().contiguous()), {}
        yield "aten.pow.Tensor_Scalar", (z, 2.5), {}
        yield "aten.pow.Tensor_Tensor", (z, z.roll(1, 0)), {}
        yield "aten.fft_ifft.default", (z,), {}
        yield "aten.polar.default", (x.abs(), y), {}
