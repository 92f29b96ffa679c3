"""Bounds hold for the plainest correct implementation, and are no more than fifty times wider than what one shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from judge.oracle.applied import applied, normal
from mindgap.judge.oracle.examination import SIGMAS

Way = Callable[..., torch.Tensor]


def looped(x: torch.Tensor) -> torch.Tensor:
    """The sum over the last dimension, one term after the other in the dtype of x."""
    total = torch.zeros(x.shape[:-1], dtype=x.dtype)
    for column in x.unbind(-1):
        total = total + column
    return total


def naive_transform(x: torch.Tensor) -> torch.Tensor:
    """The definition, with accurate twiddle factors."""
    n = x.shape[-1]
    positions = torch.arange(n)
    turns = torch.exp(-2j * torch.pi * (torch.outer(positions, positions) % n).double() / n).to(torch.complex64)
    return looped(x.unsqueeze(-2) * turns)


def coarse_transform(x: torch.Tensor) -> torch.Tensor:
    """The definition, with angles that were rounded to float32 before they were taken round the circle."""
    n = x.shape[-1]
    positions = torch.arange(n, dtype=torch.float32)
    angles = torch.outer(positions, positions) * torch.tensor(-2 * torch.pi / n, dtype=torch.float32)
    return (x.unsqueeze(-2) * torch.complex(angles.cos(), angles.sin())).sum(-1)


def plain_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The definition, each sum one term after the other. The widths of PyTorch's kernels depend on the processor."""
    scores = looped(q[..., :, None, :] * k[..., None, :, :]) / q.shape[-1] ** 0.5
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = weights / looped(weights)[..., None]
    return looped(weights[..., :, None, :] * v.mT[..., None, :, :])


K = 4096
TENTHS = torch.full((8, K), 0.1)
CASES: dict[str, tuple[str, tuple[Any, ...], Way]] = {
    "sum": ("aten.sum.dim_IntList", (TENTHS, [-1]), lambda x, d: looped(x)),
    "mean": ("aten.mean.dim", (TENTHS, [-1]), lambda x, d: looped(x) / K),
    "norm": ("aten.linalg_vector_norm.default", (TENTHS, 2.0, [-1]), lambda x, p, d: looped(x * x).sqrt()),
    "mm": ("aten.mm.default", (TENTHS, TENTHS.t().contiguous()), lambda a, b: looped(a[:, None] * b.t()[None])),
    "softmax": ("aten.softmax.int", (normal(8, K), -1), lambda x, d: (e := x.exp()) / looped(e)[:, None]),
    "tanh": ("aten.tanh.default", (normal(2048),), torch.tanh),
    "exp": ("aten.exp.default", (normal(2048),), torch.exp),
    "fft": ("aten.fft_fft.default", (normal(4, 131),), naive_transform),
    "attention": (
        "aten.scaled_dot_product_attention.default", tuple(normal(1, 2, 256, 32, seed=i) for i in range(3)),
        plain_attention,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_bound_is_wide_enough_and_no_wider(name: str) -> None:
    op, args, way = CASES[name]
    one, got = applied(op, *args), way(*args)
    assert one.kind(got) is None
    expected = one.expected.hard[0]
    assert expected is not None
    error = (got.to(expected.wide.dtype) - expected.wide).abs()
    size = expected.wide.abs()
    quotient = (SIGMAS * one.hard() + 2 * 2.0**-24 * size)[error > 0] / error[error > 0]
    assert 1 < float(quotient.min()) < 60


@pytest.mark.parametrize("length", [131, 1000])
def test_a_transform_with_coarse_angles_is_wrong(length: int) -> None:
    x = normal(2, length)
    one = applied("aten.fft_fft.default", x)
    assert one.kind(naive_transform(x)) is None and one.kinds() == [None]
    assert one.kind(coarse_transform(x)) in ("discrepant", "reduced_precision")


def test_the_error_of_a_transform_is_held_against_its_own_row() -> None:
    """A batch's large rows excuse nothing in its small ones."""
    x = normal(2, 64) * torch.tensor([[1e6], [1e-3]])
    one = applied("aten.fft_fft.default", x)
    wrong = torch.fft.fft(x)
    wrong[1, 7] += 1e-5
    assert one.kind(torch.fft.fft(x)) is None and one.kind(wrong) == "discrepant"


def test_one_wrong_element_of_a_product_of_mixed_signs_is_seen() -> None:
    """Partial sums of mixed signs stay small, and so does the bound: 1e-3 of a typical element is no rounding."""
    a, b = normal(16, 8192), normal(8192, 16, seed=1)
    one = applied("aten.mm.default", a, b)
    wrong = a @ b
    wrong[3, 4] += 1e-3 * wrong.abs().median()
    assert one.kind(a @ b) is None and one.kind(wrong) == "discrepant"


def looped_mean(x: torch.Tensor) -> torch.Tensor:
    """The mean over the last dimension, which stays, one term after the other."""
    return looped(x).unsqueeze(-1) / x.shape[-1]


def welford(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance over the last dimension, both updated with each number (Welford, 1962)."""
    mean, squares = torch.zeros(x.shape[:-1]), torch.zeros(x.shape[:-1])
    for count, column in enumerate(x.unbind(-1), 1):
        gap = column - mean
        mean = mean + gap / count
        squares = squares + gap * (column - mean)
    return mean[..., None], (squares / x.shape[-1])[..., None]


def two_passes(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean first, then the mean of squared distances to it."""
    mean = looped_mean(x)
    return mean, looped_mean((x - mean) ** 2)


def one_pass(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """E[x²] - m²."""
    mean = looped_mean(x)
    return mean, looped_mean(x * x) - mean * mean


NORMS: dict[str, Callable[[torch.Tensor], tuple[str, tuple[Any, ...]]]] = {
    "layer_norm": lambda x: ("aten.layer_norm.default", (x, [x.shape[-1]])),
    "group_norm": lambda x: ("aten.group_norm.default", (x[:, None], 1)),
    "batch_norm": lambda x: ("aten.batch_norm.default", (x[None], *[None] * 4, True, 0.1, 1e-5, False)),
    "instance_norm": lambda x: ("aten.instance_norm.default", (x[None], *[None] * 4, True, 0.1, 1e-5, False)),
}
MOMENTS = {"two passes": two_passes, "one pass": one_pass, "Welford": welford}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("algorithm", MOMENTS)
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_a_normalisation_may_round_its_statistics(norm: str, algorithm: str, shift: float) -> None:
    """The error of the mean moves every element by as much: also one that the mean hits, whose result is near zero."""
    x = normal(32, 512, shift=shift)
    x = x - (x - shift).double().mean(-1, keepdim=True).float()
    x[:, 7] = shift + 1e-5
    mean, variance = MOMENTS[algorithm](x)
    op, args = NORMS[norm](x)
    one = applied(op, *args)
    expected = one.expected.hard[0]
    assert expected is not None
    for got in ((x - mean) / (variance + 1e-5).sqrt(), x * (s := 1 / (variance + 1e-5).sqrt()) + (-mean * s)):
        got = got.reshape(expected.wide.shape)
        assert one.kind(got) is None
        error = (got.double() - expected.wide).abs()
        quotient = (SIGMAS * one.hard() + 2 * 2.0**-24 * expected.wide.abs())[error > 0] / error[error > 0]
        assert 8 < float(quotient.min()) < 90, float(quotient.min())


@pytest.mark.parametrize("norm", NORMS)
def test_an_error_of_a_thousandth_of_a_deviation_is_no_rounding_of_a_mean(norm: str) -> None:
    x = normal(32, 512)
    op, args = NORMS[norm](x)
    one = applied(op, *args)
    wrong = one.outputs[0]
    assert wrong is not None
    wrong = wrong.clone()
    wrong.view(-1)[wrong.abs().argmin()] += 1e-3
    assert one.kinds()[0] is None and one.kind(wrong) == "discrepant"
