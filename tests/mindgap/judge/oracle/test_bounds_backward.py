"""Bounds of backward operators hold for PyTorch's kernels and for its decompositions, and see larger errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._decomp import decomposition_table

from judge.oracle.applied import applied, normal
from mindgap.aten.operators import overload
from mindgap.aten.tape import flatten_result
from mindgap.judge.oracle.bounds.rules import has_rule

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
KINDS = {
    "normal": lambda t: t,
    "offset": lambda t: t + 100.0,
    "wide": lambda t: t * torch.exp(3 * normal(*t.shape, seed=9)),
    "tiny": lambda t: t * 1e-12,
}

Call = tuple[str, tuple[Any, ...]]


def elementwise(g: torch.Tensor, x: torch.Tensor) -> list[Call]:
    s, t, e = torch.sigmoid(x), torch.tanh(x), torch.nn.functional.elu(x)
    mask = normal(*x.shape, seed=5) > 0
    return [
        ("gelu_backward.default", (g, x)), ("silu_backward.default", (g, x)),
        ("sigmoid_backward.default", (g, s)), ("tanh_backward.default", (g, t)),
        ("threshold_backward.default", (g, x, 0.0)), ("hardtanh_backward.default", (g, x, -1.0, 1.0)),
        ("hardswish_backward.default", (g, x)), ("hardsigmoid_backward.default", (g, x)),
        ("leaky_relu_backward.default", (g, x, 0.01, False)), ("elu_backward.default", (g, 1.0, 1.0, 1.0, True, e)),
        ("elu_backward.default", (g, 1.0, 1.0, 1.0, False, x)), ("softplus_backward.default", (g, x, 1.0, 20.0)),
        ("mish_backward.default", (g, x)), ("native_dropout_backward.default", (g, mask, 1.25)),
        ("mse_loss_backward.default", (g, x, t, 0)),
    ]  # fmt: skip


def contractions(g: torch.Tensor, x: torch.Tensor) -> list[Call]:
    image, weight = x[:, : 3 * 64].reshape(-1, 3, 8, 8).contiguous(), normal(4, 3, 3, 3, seed=3).to(x.dtype)
    grown = normal(image.shape[0], 4, 8, 8, seed=4).to(x.dtype)
    rest = ([4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True])
    pooled, where = torch.nn.functional.max_pool2d(image, 3, 2, 1, return_indices=True)
    small = g[:, : 3 * 16].reshape(-1, 3, 4, 4)
    size = list(image.shape)
    return [
        ("convolution_backward.default", (grown, image, weight, *rest)),
        ("max_pool2d_with_indices_backward.default",
         (small[: len(pooled)], image, [3, 3], [2, 2], [1, 1], [1, 1], False, where)),
        ("avg_pool2d_backward.default", (small, image, [2, 2], [2, 2], [0, 0], False, True, None)),
        ("avg_pool2d_backward.default", (small, image, [3, 3], [2, 2], [1, 1], False, False, None)),
        ("_adaptive_avg_pool2d_backward.default", (g[:, :27].reshape(-1, 3, 3, 3), image)),
        ("embedding_dense_backward.default", (g.reshape(-1, 4), torch.arange(g.numel() // 4) % 7, 9, -1, False)),
        ("upsample_nearest2d_backward.default", (image, [8, 8], [size[0], 3, 4, 4], None, None)),
        ("upsample_bilinear2d_backward.default", (image, [8, 8], [size[0], 3, 5, 5], False, None, None)),
        ("upsample_bicubic2d_backward.default", (image, [8, 8], [size[0], 3, 5, 5], True, None, None)),
    ]  # fmt: skip


def normalised(g: torch.Tensor, x: torch.Tensor) -> list[Call]:
    rows, columns = x.shape
    w, b = normal(columns, seed=6).to(x.dtype), normal(columns, seed=7).to(x.dtype)
    _, mean, rstd = torch.native_layer_norm(x, [columns], w, b, 1e-5)
    image, slopes = x[:, : 4 * 48].reshape(rows, 4, 48).contiguous(), g[:, : 4 * 48].reshape(rows, 4, 48).contiguous()
    _, group_mean, group_rstd = torch.native_group_norm(image, w[:4], b[:4], rows, 4, 48, 2, 1e-5)
    _, batch_mean, batch_rstd = torch.native_batch_norm(image, w[:4], b[:4], None, None, True, 0.1, 1e-5)
    running = (b[:4].float(), w[:4].float().abs() + 0.1) if x.dtype == torch.float32 else (b[:4], w[:4].abs() + 0.1)
    three = [True, True, True]
    soft, log_soft = torch.softmax(x, -1), torch.log_softmax(x, -1)
    target = torch.arange(rows) % columns
    total = torch.tensor(float(rows), dtype=x.dtype)
    return [
        ("native_layer_norm_backward.default", (g, x, [columns], mean, rstd, w, b, three)),
        ("native_group_norm_backward.default",
         (slopes, image, group_mean, group_rstd, w[:4], rows, 4, 48, 2, three)),
        ("native_batch_norm_backward.default",
         (slopes, image, w[:4], *running, batch_mean, batch_rstd, True, 1e-5, three)),
        ("native_batch_norm_backward.default",
         (slopes, image, w[:4], *running, batch_mean, batch_rstd, False, 1e-5, three)),
        ("_softmax_backward_data.default", (g, soft, -1, x.dtype)),
        ("_log_softmax_backward_data.default", (g, log_soft, -1, x.dtype)),
        ("nll_loss_backward.default", (total * 0 + 1.5, log_soft, target, None, 1, -100, total)),
    ]  # fmt: skip


def calls(kind: str, dtype: torch.dtype) -> list[Call]:
    x = KINDS[kind](normal(16, 256, seed=1)).to(dtype)
    g = normal(16, 256, seed=2).to(dtype)
    found = [*elementwise(g, x), *contractions(g, x), *normalised(g, x)]
    return [(f"aten.{op}", args) for op, args in found]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_eager_is_calm(dtype: str, kind: str) -> None:
    alarms: list[str] = []
    for op, args in calls(kind, DTYPES[dtype]):
        assert has_rule(op.split(".")[1]), op
        found = applied(op, *args).kinds()
        if any(k is not None for k in found):
            alarms.append(f"{op}: {found}")
    assert not alarms


@pytest.mark.parametrize("kind", KINDS)
def test_decompositions_are_calm(kind: str) -> None:
    """An implementation of other rounding errors: PyTorch's own definition by simpler operators, in float32."""
    alarms: list[str] = []
    tried = 0
    for op, args in calls(kind, torch.float32):
        decomposed = decomposition_table.get(overload(op))
        if decomposed is None:
            continue
        tried += 1
        one = applied(op, *args)
        for slot, y in enumerate(flatten_result(decomposed(*args))):
            if y is not None and one.outputs[slot] is not None and one.kind(y.contiguous(), slot) is not None:
                alarms.append(f"{op} {slot}: {one.kind(y.contiguous(), slot)}")
    assert not alarms
    assert tried > 15


def test_an_error_a_little_past_the_bound_is_seen_and_no_bound_is_wide() -> None:
    for op, args in calls("normal", torch.float32):
        one = applied(op, *args)
        for slot, y in enumerate(one.outputs):
            if y is None or not y.numel():
                continue
            if one.expected.hard[slot] is None or not bool((one.hard(slot) > 0).any()):
                wrong = torch.where(y == 0, 1.0, y * (1 + 1e-5))  # exact: the gradient or nothing
            else:
                bound = one.hard(slot).expand(y.shape)
                assert float(bound.max()) < 1e-3 * float(y.abs().max()), op
                wrong = (y.double() + 20 * bound + 2e-7 * y.abs()).float()
            assert one.kind(wrong, slot) is not None, f"{op} {slot}"


def test_a_bound_of_complex_numbers_is_real() -> None:
    """`silu_backward` is the only activation's gradient that PyTorch computes in complex numbers."""
    g, x = (torch.complex(normal(4, 5, seed=seed), normal(4, 5, seed=seed + 1)) for seed in (1, 3))
    one = applied("aten.silu_backward.default", g, x)
    assert not one.hard().is_complex() and one.kinds() == [None]
    (right,) = [y for y in one.outputs if y is not None]
    assert one.kind(right * 1.001) is not None
