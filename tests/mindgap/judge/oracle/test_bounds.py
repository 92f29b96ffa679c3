"""Bounds hold for every correct way to compute an operator, and see every error that is a little larger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from judge.oracle.applied import Applied, applied, normal

OPERANDS: dict[str, Callable[[tuple[int, ...]], torch.Tensor]] = {
    "normal": lambda s: normal(*s),
    "offset": lambda s: normal(*s, shift=1000.0),
    "wide": lambda s: torch.exp(normal(*s, seed=1) * 4) * normal(*s, seed=2).sign(),
    "cancelling": lambda s: torch.cat([(h := normal(*s)[..., : s[-1] // 2]) * 1e4, -h * 1e4 + 1e-3], -1),
    "tiny": lambda s: normal(*s) * 1e-30,
    "huge": lambda s: normal(*s) * 1e15,
}


def loop_sum(x: torch.Tensor) -> torch.Tensor:
    total = np.zeros(x.shape[0], np.float32)
    for column in x.numpy().T:
        total = total + column
    return torch.from_numpy(total)


def pairwise(x: torch.Tensor) -> torch.Tensor:
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        rest = x[..., 2 * half :]
        x = torch.cat([x[..., :half] + x[..., half : 2 * half], rest], -1)
    return x[..., 0]


SUMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "eager": lambda x: x.sum(-1), "loop": loop_sum, "backwards": lambda x: loop_sum(x.flip(-1)), "pairwise": pairwise,
    "chunks": lambda x: sum(c.sum(-1) for c in x.split(100, -1)),
    "by product": lambda x: (x @ torch.ones(x.shape[-1], 1))[:, 0],
}  # fmt: skip


@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("way", SUMS)
def test_any_order_of_a_long_sum(operands: str, way: str) -> None:
    x = OPERANDS[operands]((8, 3000))
    one = applied("aten.sum.dim_IntList", x, [-1])
    assert one.kind(SUMS[way](x)) is None


PRODUCTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "eager": torch.mm,
    "numpy": lambda a, b: torch.from_numpy(a.numpy() @ b.numpy()),
    "chunks": lambda a, b: sum(a[:, i : i + 37] @ b[i : i + 37] for i in range(0, a.shape[1], 37)),
    "backwards": lambda a, b: a.flip(1).contiguous() @ b.flip(0).contiguous(),
    "broadcast": lambda a, b: (a[:, :, None] * b[None]).sum(1),
}


@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("way", PRODUCTS)
def test_any_way_to_multiply_matrices(operands: str, way: str) -> None:
    a, b = OPERANDS[operands]((6, 500)), OPERANDS[operands]((5, 500)).t().contiguous()
    one = applied("aten.mm.default", a, b)
    assert one.kind(PRODUCTS[way](a, b)) is None


VARIANCES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "eager": lambda x: x.var(-1, correction=0),
    "two passes": lambda x: ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1),
    "numpy": lambda x: torch.from_numpy(x.numpy().var(-1)),
    "shifted": lambda x: ((x - x[:, :1]) ** 2).mean(-1) - (x - x[:, :1]).mean(-1) ** 2,
}


@pytest.mark.parametrize("operands", ["normal", "wide", "tiny", "huge"])
@pytest.mark.parametrize("way", VARIANCES)
def test_ways_to_a_variance(operands: str, way: str) -> None:
    x = OPERANDS[operands]((4, 200))
    one = applied("aten.var.correction", x, [-1], correction=0)
    assert one.kind(VARIANCES[way](x)) is None


def folded_norm(x: torch.Tensor) -> torch.Tensor:
    mean, mean_of_squares = x.mean(-1, keepdim=True), (x * x).mean(-1, keepdim=True)
    scale = torch.rsqrt((mean_of_squares - mean * mean).clamp_min(0) + 1e-5)
    return x * scale - mean * scale


NORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "eager": lambda x: torch.layer_norm(x, [x.shape[-1]]),
    "two passes": lambda x: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, correction=0, keepdim=True) + 1e-5),
    "folded": folded_norm,
}


@pytest.mark.parametrize("shift", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("way", NORMS)
def test_ways_to_normalise(way: str, shift: float) -> None:
    x = normal(16, 64, shift=shift)
    assert applied("aten.layer_norm.default", x, [64]).kind(NORMS[way](x)) is None


SOFTMAXES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "eager": lambda x: x.softmax(-1),
    "exp of log": lambda x: x.log_softmax(-1).exp(),
    "base two": lambda x: (e := torch.exp2((x - x.amax(-1, keepdim=True)) * 1.4426950408889634)) / e.sum(-1, True),
    "online": lambda x: torch.exp(x - torch.logsumexp(x, -1, keepdim=True)),
}


@pytest.mark.parametrize("scale", [1.0, 20.0, 200.0])
@pytest.mark.parametrize("way", SOFTMAXES)
def test_ways_to_a_softmax(way: str, scale: float) -> None:
    x = normal(8, 40) * scale
    assert applied("aten.softmax.int", x, -1).kind(SOFTMAXES[way](x)) is None


ATTENTIONS = torch.nn.attention.SDPBackend


@pytest.mark.parametrize("backend", [ATTENTIONS.MATH, ATTENTIONS.FLASH_ATTENTION])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_ways_to_attend(backend: Any, dtype: torch.dtype, scale: float) -> None:
    q, k, v = (normal(1, 2, 33, 16, seed=i, scale=scale).to(dtype) for i in range(3))
    one = applied("aten.scaled_dot_product_attention.default", q, k, v)
    with torch.nn.attention.sdpa_kernel(backend):
        other = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert one.kind(other) is None


def cases(dtype: torch.dtype = torch.float32) -> dict[str, Applied]:
    """One operator of each family."""
    x, y = normal(16, 32, dtype=dtype), normal(16, 32, seed=1, dtype=dtype)
    image, kernel = normal(2, 4, 8, 8, seed=2, dtype=dtype), normal(6, 4, 3, 3, seed=3, dtype=dtype)
    q = normal(1, 2, 16, 8, seed=4, dtype=dtype)
    return {
        "add": applied("aten.add.Tensor", x, y),
        "div": applied("aten.div.Tensor", x, y),
        "exp": applied("aten.exp.default", x),
        "tanh": applied("aten.tanh.default", x),
        "gelu": applied("aten.gelu.default", x),
        "pow": applied("aten.pow.Tensor_Scalar", x.abs(), 2.5),
        "mm": applied("aten.mm.default", x, y.t().contiguous()),
        "linear": applied("aten.linear.default", x, y, normal(16, seed=9, dtype=dtype)),
        "conv2d": applied("aten.conv2d.default", image, kernel, None, [1, 1], [1, 1]),
        "sum": applied("aten.sum.dim_IntList", x, [0]),
        "mean": applied("aten.mean.dim", x, [0]),
        "layer_norm": applied("aten.layer_norm.default", x, [32]),
        "batch_norm": applied("aten.batch_norm.default", image, None, None, normal(4, seed=5, dtype=dtype),
                              normal(4, seed=6, dtype=dtype).abs() + 0.1, False, 0.1, 1e-5, False),
        "softmax": applied("aten.softmax.int", x, -1),
        "attention": applied("aten.scaled_dot_product_attention.default", q, q, q),
        "upsample": applied("aten.upsample_bilinear2d.default", image, [13, 5], False),
        "cumsum": applied("aten.cumsum.default", x, -1),
        "norm": applied("aten.linalg_vector_norm.default", x, 2.0, [-1]),
    }  # fmt: skip


def test_inner_rounding_of_an_operator_without_a_rule() -> None:
    # Whatever the operands, the cosine of two vectors of one element is 1: perturbing them shows no rounding.
    a, b, target = torch.tensor([[0.3]]), torch.tensor([[0.7]]), torch.ones(1)
    one = applied("aten.cosine_embedding_loss.default", a, b, target)
    step = torch.finfo(torch.float32).eps / 2
    assert one.kinds() == [None]
    assert one.kind(torch.tensor(step)) is None and one.kind(torch.tensor(4 * step)) is None
    assert one.kind(torch.tensor(1e-3)) is not None


@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_ways_to_a_triplet_margin(shift: float) -> None:
    anchor, near, far = (normal(4, 64, seed=seed, shift=shift) for seed in range(3))

    def distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        squares = (x * x).sum(-1) + (y * y).sum(-1) - 2 * (x * y).sum(-1)
        return (x - y + 1e-6).pow(2).sum(-1).sqrt() if shift else squares.clamp_min(0).sqrt()

    one = applied("aten.triplet_margin_loss.default", anchor, near, far)
    right = (distance(anchor, near) - distance(anchor, far) + 1).clamp_min(0).mean()
    assert one.kinds() == [None] and one.kind(right.float()) is None
    assert one.kind(right.float() * 1.05) is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_error_past_the_bound_is_seen_at_any_single_element(dtype: torch.dtype) -> None:
    for name, one in cases(dtype).items():
        y = one.outputs[0]
        assert y is not None
        hard, exact = one.hard(), one.expected.hard[0]
        assert exact is not None and one.kind(y) is None, name
        for position in (0, y.numel() // 3, y.numel() - 1):
            floor = (
                32 * float(hard.flatten()[position]) + 32 * float(hard.median()) + 2 * float(torch.finfo(dtype).tiny)
            )
            wrong = y.clone()
            wrong.view(-1)[position] = (
                y.flatten()[position].double() + floor + 4 * torch.finfo(dtype).eps * abs(float(y.flatten()[position]))
            )
            assert one.kind(wrong) == "discrepant", (name, position)


def test_sixteen_bits_on_the_way_are_told_from_rounding() -> None:
    """The whole result of an operator that rounded its operands to bfloat16."""
    x, y = normal(64, 96), normal(48, 96, seed=1)
    one = applied("aten.linear.default", x, y)
    short = torch.nn.functional.linear(x.bfloat16(), y.bfloat16()).float()
    assert one.kind(short) == "reduced_precision"
    image, kernel = normal(2, 8, 10, 10), normal(6, 8, 3, 3, seed=1)
    one = applied("aten.conv2d.default", image, kernel)
    assert one.kind(torch.conv2d(image.bfloat16().float(), kernel.bfloat16().float())) == "reduced_precision"
    one = applied("aten.exp.default", x)
    assert one.kind(x.bfloat16().exp().float()) == "reduced_precision"


def test_a_lost_factor_is_no_loss_of_bits() -> None:
    x = normal(64, seed=3)
    one = applied("aten.selu.default", x)
    right = torch.selu(x)
    assert one.kind(right.bfloat16().float()) == "reduced_precision"
    assert one.kind(right / 1.0507) == "discrepant"


def test_tf32_is_told_too() -> None:
    """Ten bits of significand, as matrix units of some accelerators keep silently."""

    def tf32(t: torch.Tensor) -> torch.Tensor:
        return (t.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)

    x, y = normal(64, 96), normal(96, 48, seed=1)
    assert applied("aten.mm.default", x, y).kind(tf32(x) @ tf32(y)) == "reduced_precision"


def test_a_soft_margin_written_out_is_rounding() -> None:
    """log(1 + e) loses u where e is small, as softplus does."""
    x, y = torch.tensor(-1.6392), torch.tensor(-8.7773)
    one = applied("aten.soft_margin_loss.default", x, y)
    written_out = torch.log(1 + torch.exp(-y * x))
    assert (
        written_out != one.outputs[0] and one.kind(written_out) is None and one.kind(written_out + 1e-4) == "discrepant"
    )


def test_a_few_float64_elements_that_float32_explains_are_reduced_precision() -> None:
    x = normal(3, 4, dtype=torch.float64)
    one = applied("aten.exp.default", x)
    assert one.kind(x.exp()) is None and one.kind(x.float().exp().double()) == "reduced_precision"
    assert one.kind(x.exp() * (1 + 1e-5)) == "discrepant"
    few = applied("aten.exp.default", x.float())
    assert few.kind(x.float().bfloat16().exp().float()) == "discrepant"


EXACT = {
    "aten.view.default": ([4, 8],), "aten.permute.default": ([1, 0],), "aten.relu.default": (),
    "aten.neg.default": (), "aten.abs.default": (), "aten.clamp.default": (-0.5, 0.5), "aten.floor.default": (),
    "aten.amax.default": ([0],), "aten.flip.default": ([0],), "aten.clone.default": (),
    "aten.constant_pad_nd.default": ([1, 1], 2.0), "aten.sign.default": (), "aten.round.default": (),
}  # fmt: skip


@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_only_moves_or_chooses_has_no_slack(op: str, dtype: torch.dtype) -> None:
    one = applied(op, normal(8, 4, dtype=dtype), *EXACT[op])
    y = one.outputs[0]
    assert y is not None and float(one.hard().abs().max()) == 0.0
    wrong = y.clone(memory_format=torch.contiguous_format)
    wrong.view(-1)[1] += 8 * torch.finfo(dtype).eps * wrong.view(-1)[1].abs() + 1e-3
    assert one.kind(wrong) == "discrepant"


def test_complex_magnitudes_round() -> None:
    z = torch.complex(normal(32), normal(32, seed=1))
    assert float(applied("aten.abs.default", z).hard().min()) > 0
    assert float(applied("aten.abs.default", normal(32)).hard().max()) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 2000), st.floats(-6, 6), st.floats(-3, 4), st.booleans())
def test_no_sum_of_random_operands_alarms(seed: int, length: int, scale: float, shift: float, backwards: bool) -> None:
    x = normal(3, length, seed=seed, scale=10.0**scale, shift=10.0**shift)
    one = applied("aten.sum.dim_IntList", x, [-1])
    assert one.kind(loop_sum(x.flip(-1) if backwards else x)) is None


def test_operands_beyond_the_accumulator_are_not_judged() -> None:
    x = normal(4, 64) * 1e19
    one = applied("aten.layer_norm.default", x, [64])
    assert one.kind(torch.zeros(4, 64)) is None and one.kind(torch.full((4, 64), float("nan"))) is None
    ordinary = applied("aten.layer_norm.default", normal(4, 64) * 1e15, [64])
    assert ordinary.kind(torch.zeros(4, 64)) == "discrepant"


@pytest.mark.parametrize("first", [-torch.inf, -1000.0])
def test_the_logarithm_of_a_sum_rounds_the_sum(first: float) -> None:
    y = torch.cat([10.0 ** -torch.arange(1, 9), -(10.0 ** -torch.arange(1, 9))])
    one = applied("aten.logaddexp.default", torch.full((16,), first), y)
    assert one.kind(torch.log(torch.exp(torch.tensor(first)) + torch.exp(y))) is None
    if first == -torch.inf:
        assert one.kind(y + 1e-6) is not None


def test_an_infinite_operand_does_not_excuse_the_others() -> None:
    x = normal(4, 64)
    x[0, 0] = float("inf")
    one = applied("aten.layer_norm.default", x, [64])
    y = one.outputs[0]
    assert y is not None and one.kinds() == [None, None, None][: len(one.kinds())]
    wrong = y.clone()
    wrong[2, 5] += 0.5
    assert one.kind(wrong) == "discrepant"


def test_scalars_may_be_rounded_to_sixteen_bits() -> None:
    x = normal(200, dtype=torch.bfloat16)
    narrow = float(torch.tensor(0.1).bfloat16())
    for op in ("mul", "add", "sub", "div"):
        one = applied(f"aten.{op}.Tensor", x, 0.1)
        assert one.kind(getattr(torch, op)(x, narrow)) is None, op


def test_defaults_follow_the_declared_dtype() -> None:
    x = normal(4, 16) * 1e-4
    assert applied("aten.rms_norm.default", x, [16]).kinds() == [None]
    special = torch.tensor([float("inf"), -float("inf"), float("nan"), 1.0])
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert applied("aten.nan_to_num.default", special.to(dtype)).kinds() == [None]


@pytest.mark.parametrize(
    "op", ["aten.rsub.Scalar", "aten.sub.Scalar", "aten.add.Scalar", "aten.rsub.Tensor", "aten.sub.Tensor"]
)
def test_the_product_with_alpha_is_rounded_or_not(op: str) -> None:
    """One processor multiplies and adds in one step, another in two. The forms with a number take alpha by position."""
    x, alpha = torch.linspace(-2, 2, 64), 3.0
    number = {"aten.add.Scalar": -2 / 3, "aten.sub.Scalar": 2 / 3}.get(op, 2.0)
    other = number if op.endswith("Scalar") else torch.full((64,), number)
    scaled = x if ".rsub" in op else torch.full((64,), number)
    free = torch.full((64,), number) if ".rsub" in op else x
    sign = 1 if ".add" in op else -1
    given = (x, other, alpha) if op.endswith("Scalar") else (x, other)
    one = applied(op, *given, **({} if op.endswith("Scalar") else {"alpha": alpha}))
    assert one.kind(free + sign * (alpha * scaled)) is None, "in two steps"
    fused = (free.double() + sign * (alpha * scaled.double())).float()
    assert one.kind(fused) is None, "in one step"
    assert one.kind(free + sign * (alpha * scaled) * (1 + 2e-6)) is not None
