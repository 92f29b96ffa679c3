"""Lists cases where `torch.compile` on the CPU (torch 2.13.0) is wrong, and cases where it only rounds.

Also lists cases of eager PyTorch against itself under other settings. Each case was run and judged by hand: values were
compared with mpmath, or computed step by step.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from truth.case import Case
from truth.cases_ort_ov import INF, NAN, normal, values

INDUCTOR = "cpu/inductor"
TIER = "cpu/eager@isa=default"
THREADS = "cpu/eager@threads=2"
NO_ONEDNN = "cpu/eager@onednn=off"
LAST = "cpu/eager@layout=channels_last"
MEDIUM = "cpu/eager@matmul=medium"
AUTOCAST = "cpu/eager@autocast=bfloat16"

CALM = ("identical", "rounding")
LOOSE = ("identical", "rounding", "ill_conditioned")

#: Eighteen small positive numbers: one vector of int8 in generated code and a rest.
_SMALL = (5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80)


def _view_then_write(x: Tensor) -> Tensor:
    halves = x.view(torch.int32) * 2
    halves.sub_(-4)
    x[:, 2:5] = 2
    return halves.view(torch.int64)


def _fused_brain(x: Tensor, y: Tensor) -> Tensor:
    """Eight elementwise steps, each of which eager rounds to bfloat16."""
    for _ in range(4):
        x = torch.tanh(x * 1.3 + y) - 0.1 * x
        x = x * torch.sigmoid(x)
    return x


def _linears(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = F.layer_norm(F.gelu(F.linear(x, weight)), (weight.shape[0],))
    return x


def _chaos(x: Tensor) -> Tensor:
    for _ in range(60):
        x = 0.99 * torch.sin(3.1415927 * x)
    return x


def _horner(x: Tensor) -> Tensor:
    """(x - 1)^7, expanded: next to its root nothing but rounding is left."""
    total = torch.ones_like(x)
    for factor in (-7.0, 21.0, -35.0, 35.0, -21.0, 7.0, -1.0):
        total = total * x + factor
    return total


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The shape of attention that the compiler replaces by its fused kernel."""
    return (q @ k.transpose(-2, -1)).div(2.8284271247461903).softmax(-1) @ v


def _masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) / 2.0 + mask, -1) @ v


def _holed(*shape: int) -> Tensor:
    filled = normal(*shape)
    filled.flatten()[30] = NAN
    return filled


def _stack(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = F.relu(F.conv2d(x, weight, padding=1))
    return x


_TINY = torch.logspace(-12, -6, 24)
_MASKED_ROW = torch.zeros(1, 1, 3, 3)
_MASKED_ROW[0, 0, 1] = -INF
_NAN_GRID = torch.tensor([[[[NAN, 0.2], [0.2, NAN], [0.1, 0.3]]]])
_MODULI = (values(7.5, -7.5, 3.0, 1e30, -2.25, 0.5), values(INF, INF, -INF, 3.0, 0.5, 0.1))

FINDINGS = (
    Case(
        "ind_expm1_tiny", lambda x: torch.expm1(x), (_TINY,), INDUCTOR,
        "finding", ("discrepant", "reduced_precision"),
        "Generated code computes exp(x) - 1: 0 below 6e-8, where expm1(x) is x. C and PyTorch define expm1 for just "
        "this range.",
        blame="platform",
    ),
    Case(
        "ind_atanh_tiny", lambda x: torch.atanh(x), (_TINY,), INDUCTOR,
        "finding", ("discrepant", "reduced_precision"),
        "Written as log((1 + x)/(1 - x))/2: 0 below 6e-8, where atanh(x) is x to all digits; eager gives x.",
        blame="platform",
    ),
    Case(
        "ind_erf_tiny", lambda x: torch.erf(x), (_TINY,), INDUCTOR,
        "finding", ("discrepant",),
        "1 minus a polynomial times exp(-x²): 0 where erf(x) is 1.128·x; eager has all digits.",
        blame="platform",
    ),
    Case(
        "ind_acosh_large", lambda x: torch.acosh(x), (torch.logspace(18, 37, 20),), INDUCTOR,
        "finding", ("exceptional",),
        "log(x + sqrt(x² - 1)) in vectors: the square overflows, inf where acosh(1e20) is 46.74.",
        blame="platform",
    ),
    Case(
        "ind_softshrink_nan", lambda x: F.softshrink(x), (values(NAN, -2.0, 0.1),), INDUCTOR,
        "finding", ("exceptional",),
        "The decomposition tests |x| > 0.5, which is false for NaN, and answers 0. Eager's kernel propagates it on "
        "purpose (it multiplies by 0); the documentation's formula alone would allow 0.",
        blame="platform",
    ),
    Case(
        "ind_remainder_inf", lambda a, b: torch.remainder(a, b), _MODULI, INDUCTOR,
        "finding", ("exceptional", "discrepant"),
        "a - b·floor(a/b): NaN for 7.5 % inf, which is 7.5 in Python and in eager.",
        blame="platform",
    ),
    Case(
        "ind_remainder_range", lambda x: torch.remainder(x, -103.0), (torch.linspace(1e30, 9e30, 20),), INDUCTOR,
        "finding", ("discrepant", "reduced_precision"),
        "PyTorch documents that the result has the divisor's sign and is smaller than it. Eager's fmod is exact; "
        "x - y·floor(x/y) in float32 leaves 0 or a rounding error of x itself, 1e23 and more, of either sign.",
        blame="platform",
    ),
    Case(
        "ind_remainder_of_large", lambda x: torch.remainder(x, 3.0), (normal(20).abs() * 1e9 + 1e9,), INDUCTOR,
        "finding", ("discrepant", "reduced_precision"),
        "±128 as a remainder by 3: x - 3·floor(x/3) written out, where an ulp of x is 128. Eager's fmod is exact, and "
        "the documentation puts the result below the divisor.",
        blame="platform",
    ),
    Case(
        "ind_floor_divide_tenth", lambda x: torch.floor_divide(x, 0.1), (values(0.5, 1.0, 2.5, 5.0),), INDUCTOR,
        "finding", ("discrepant", "reduced_precision"),
        "The float32 nearest 0.1 is above it, so 0.5 // 0.1 is 4 in exact arithmetic, in Python and in eager; 0.5/0.1 "
        "is 5 but for half an ulp, and floor(x/y) of the rounded quotient answers 5.",
        blame="platform",
    ),
    Case(
        "ind_floor_divide_inf", lambda a, b: torch.floor_divide(a, b),
        (values(INF, -INF, 5.0, -1.0), values(2.0, 3.0, 2.0, INF)), INDUCTOR,
        "finding", ("exceptional", "discrepant"),
        "floor(inf/2) is inf where Python's inf // 2, as eager's, is NaN; and floor(-1/inf) is -0 for -1.",
        blame="platform",
    ),
    Case(
        "ind_pow_negative_zero", lambda x: torch.pow(x, -0.5), (values(-0.0, -INF, 4.0),), INDUCTOR,
        "finding", ("exceptional",),
        "C99: pow(±0, y) is +inf for negative y that is no odd integer, and pow(-inf, y) +0. Eager takes rsqrt: -inf "
        "and NaN. The compiled program is right.",
        blame="reference",
    ),
    Case(
        "ind_gelu_inf", lambda x: F.gelu(x), (torch.full((16,), INF),), INDUCTOR,
        "finding", ("exceptional",),
        "Eager's gelu vectorised with AVX-512 answers NaN for +inf; x·Phi(x) is +inf, as the compiled program says.",
        blame="reference",
        needs=frozenset({"avx512f"}),
    ),
    Case(
        "ind_plus_zeros", lambda x: 1.0 / (x + torch.zeros(20)), (torch.full((20,), -0.0),), INDUCTOR,
        "finding", ("exceptional",),
        "Adding a tensor of zeros is removed, but -0.0 + 0.0 is +0.0 (IEEE 754): -inf instead of +inf.",
        blame="platform",
    ),
    Case(
        "ind_byte_min", lambda x: x.min(), (torch.tensor(_SMALL, dtype=torch.uint8),), INDUCTOR,
        "finding", ("discrepant",),
        "Lanes of the vector that hold no data start at 0 and win: the minimum of positive numbers is 0. "
        "With the shorter vectors of AVX2 it is right.",
        blame="platform",
        needs=frozenset({"avx512f"}),
    ),
    Case(
        "ind_char_max", lambda x: x.max(), (-torch.tensor(_SMALL, dtype=torch.int8),), INDUCTOR,
        "finding", ("discrepant",),
        "As the minimum: the largest of negative numbers is 0.",
        blame="platform",
    ),
    Case(
        "ind_char_argmin", lambda x: x.argmin(), (torch.tensor(_SMALL, dtype=torch.int8),), INDUCTOR,
        "finding", ("discrepant",),
        "An index that is not the minimum's (1).",
        blame="platform",
    ),
    Case(
        "ind_max_pool_index", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
        (torch.full((1, 2, 9, 9), -INF),), INDUCTOR,
        "finding", ("discrepant",),
        "Windows of -inf tie with the padding, whose place wins: an index of -10, outside of the plane.",
        blame="platform",
    ),
    Case(
        "ind_masked_attention", _masked_attention,
        (*(normal(1, 1, 3, 4, seed=s) for s in range(3)), _MASKED_ROW), INDUCTOR,
        "finding", ("exceptional",),
        "softmax of a row of -inf is 0/0, NaN, as the program is written. The compiler puts its attention operator "
        "in its place, whose safe softmax answers 0.",
        blame="platform",
    ),
    Case(
        "ind_grid_nan", lambda x, g: F.grid_sample(x, g, "nearest", "border", align_corners=False),
        (normal(1, 1, 4, 4), _NAN_GRID), INDUCTOR,
        "finding", ("discrepant",),
        "PyTorch documents that NaN in a grid is read as -1, so the border's element comes out, as in eager; the "
        "decomposition answers 0.",
        blame="platform",
    ),
    Case(
        "ind_view_then_write", _view_then_write, (torch.arange(-12, 12).reshape(4, 6),), INDUCTOR,
        "finding", ("discrepant",),
        "What was read through a view of another dtype is read only after a later write to its base.",
        blame="platform",
    ),
)  # fmt: skip

_BRAIN = tuple((normal(64, 64, seed=10 + i) * 0.2).bfloat16() for i in range(6))
_HALF = tuple((normal(64, 64, seed=10 + i) * 0.2).half() for i in range(6))

CALM_INDUCTOR = (
    Case(
        "ind_calm_tanhshrink_half", lambda x: F.tanhshrink(x), (torch.linspace(0.05, 0.5, 40).half(),), INDUCTOR,
        "calm", CALM,
        "x - tanh(x), fused: tanh(x) is not rounded to float16 in between. At 0.1 the truth is 3.33e-4, the compiled "
        "program's 3.32e-4, eager's 3.05e-4.",
    ),
    Case(
        "ind_calm_fused_brain", _fused_brain, (normal(128, dtype=torch.bfloat16), normal(128, seed=1).bfloat16()),
        INDUCTOR, "calm", LOOSE,
        "Sixteen steps in one kernel in float32, rounded at the end: nearer to float64 than eager, which rounds each.",
    ),
    Case(
        "ind_calm_brain_cancels", lambda x: (x + 300.0) - 300.0, (normal(64, dtype=torch.bfloat16),), INDUCTOR,
        "calm", LOOSE,
        "Fused in float32 the sum keeps x; eager's bfloat16 at 300 knows steps of 2. The compiled answer is the truer.",
    ),
    Case(
        "ind_calm_half_overflow", lambda x: (x * 1000.0) * 0.001, (normal(64, dtype=torch.float16) * 100,), INDUCTOR,
        "calm", LOOSE,
        "In float16 the product overflows to inf; fused in float32 it does not, and the answer is x.",
    ),
    Case(
        "ind_calm_brain_stack", _linears, (normal(8, 64).bfloat16(), *_BRAIN), INDUCTOR, "calm", LOOSE,
        "Six layers in bfloat16, with gelu and the normalisation fused.",
    ),
    Case(
        "ind_calm_half_stack", _linears, (normal(8, 64).half(), *_HALF), INDUCTOR, "calm", LOOSE,
        "The same in float16.",
    ),
    Case(
        "ind_calm_long_sum", lambda x: x.sum(), (normal(1 << 20),), INDUCTOR, "calm", CALM,
        "A million terms that cancel: order of summation only.",
    ),
    Case(
        "ind_calm_long_mean_brain", lambda x: x.mean(-1), (normal(4, 1 << 15).bfloat16(),), INDUCTOR, "calm", LOOSE,
        "Means of 32,768 bfloat16 numbers, accumulated in float32 by both.",
    ),
    Case(
        "ind_calm_far_layer_norm", lambda x: F.layer_norm(x, (64,)), (normal(4, 64) + 1e4,), INDUCTOR, "calm", LOOSE,
        "The mean is 10,000 times the deviation: an ulp of it is 1e-3 of the deviation.",
    ),
    Case(
        "ind_calm_far_variance", lambda x: torch.var(x, -1), (normal(3, 1000) * 1e-2 + 100,), INDUCTOR, "calm", LOOSE,
        "Welford's update against two passes, of values far from zero.",
    ),
    Case(
        "ind_calm_far_batch_norm", lambda x: F.batch_norm(x, None, None, training=True),
        (normal(2, 3, 9, 9) * 1e-3 + 10,), INDUCTOR, "calm", LOOSE,
        "Statistics of values that spread by a thousandth of a percent of their mean.",
    ),
    Case(
        "ind_calm_constant_norm", lambda x: F.group_norm(x, 1), (torch.full((1, 2, 9, 9), 1000.1),), INDUCTOR,
        "calm", LOOSE, "A constant: whatever the mean's rounding leaves, over sqrt(1e-5).",
    ),
    Case(
        "ind_calm_wide_softmax", lambda x: x.softmax(-1), (normal(4, 1000) * 30,), INDUCTOR, "calm", CALM,
        "Exponents from 0 to -200: other polynomial, other order, and subnormals that either may flush.",
    ),
    Case(
        "ind_calm_logaddexp2_cancels", lambda a, b: torch.logaddexp2(a, b), (torch.full((16,), -1.0),) * 2, INDUCTOR,
        "calm", LOOSE,
        "max + log2(1 + 2^-d) is 0 exactly; eager's 1e-8 is an ulp of the terms that cancel.",
    ),
    Case(
        "ind_calm_gelu_tail", lambda x: F.gelu(x), (torch.linspace(-5.4, -4.0, 32),), INDUCTOR, "calm", LOOSE,
        "1 + erf cancels in both: steps of 6e-8·|x|, either side of x·Phi(x). PyTorch promises no more.",
    ),
    Case(
        "ind_calm_ndtr_tail", lambda x: torch.special.ndtr(x), (torch.linspace(-6.0, -3.0, 24),), INDUCTOR,
        "calm", LOOSE, "(1 + erf)/2 cancels in both: eager's vectorised kernel answers 0 at -6 as well.",
    ),
    Case(
        "ind_calm_elu_tiny", lambda x: F.elu(x), (-_TINY,), INDUCTOR, "calm", LOOSE,
        "exp(x) - 1, as the documentation writes it; eager's expm1 is better than that by up to an ulp of 1.",
    ),
    Case(
        "ind_calm_near_tie", lambda x: torch.stack([x.sum(-1), x.flip(-1).cumsum(-1)[:, -1]], -1).argmax(-1),
        (normal(64, 512),), INDUCTOR, "calm", LOOSE,
        "The same numbers summed in two orders: which sum is larger is the rounding's choice.",
    ),
    Case(
        "ind_calm_chaos", _chaos, (torch.linspace(0.1, 0.4, 16),), INDUCTOR, "calm", LOOSE,
        "Sixty steps of the sine map, each of which doubles an error.",
    ),
    Case(
        "ind_calm_near_root", _horner, (torch.linspace(0.99, 1.01, 32),), INDUCTOR, "calm", LOOSE,
        "True values below 1e-14, computed from terms of size 35; fused multiply-adds change all of them.",
    ),
    Case(
        "ind_calm_cast_out_of_range", lambda x: x.to(torch.int8), (torch.linspace(-300.0, 300.0, 33),), INDUCTOR,
        "calm", ("undefined",),
        "128.0 in int8: C leaves it undefined. Eager wraps, the vector instruction saturates.",
    ),
    Case(
        "ind_calm_negative_zero", lambda x: F.relu6(x), (values(-0.0, 0.0, 7.0, -1.0),), INDUCTOR, "calm", CALM,
        "The sign of a zero that nobody looks at.",
    ),
    Case(
        "ind_calm_subnormal_power", lambda x: torch.pow(x, -2), (values(1e20, 2e20, 3.0),), INDUCTOR, "calm", CALM,
        "1e-40 against 0: 1/x² overflows on the way in eager. Below the smallest normal number nothing is promised.",
    ),
    Case(
        "ind_calm_long_cumsum", lambda x: x.cumsum(-1), (normal(2, 20000),), INDUCTOR, "calm", CALM,
        "A running sum in another order, or in float64 on the way.",
    ),
    Case(
        "ind_calm_attention", _attention, tuple(normal(1, 2, 32, 8, seed=s).bfloat16() for s in range(3)), INDUCTOR,
        "calm", LOOSE, "Replaced by the fused kernel, which keeps scores and weights in float32.",
    ),
    Case(
        "ind_calm_resize", lambda x: F.interpolate(x, size=(20, 23), mode="bilinear"), (normal(1, 2, 9, 9),), INDUCTOR,
        "calm", CALM,
        "Source coordinates in float32, rounded in another order: weights differ by 5e-7, sums that cancel by more.",
    ),
    Case(
        "ind_calm_grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False, padding_mode="reflection"),
        (normal(1, 2, 9, 9), normal(1, 6, 7, 2, seed=1)), INDUCTOR, "calm", LOOSE,
        "As resizing: a coordinate's last bit moves the weights of its neighbours.",
    ),
    Case(
        "ind_calm_middle_of_linspace", lambda x: x * torch.linspace(-3, 3, 101), (torch.ones(101),), INDUCTOR,
        "calm", LOOSE,
        "start + i·step against end - i·step: 7e-8 or 0 in the middle, an ulp of the ends.",
    ),
    Case(
        "ind_calm_scaled_difference", lambda a, b: torch.sub(a, b, alpha=3), (normal(64) * 3, normal(64, seed=1)),
        INDUCTOR, "calm", LOOSE, "A fused multiply-add: the product is not rounded before it is taken off.",
    ),
    Case(
        "ind_calm_tied_indices", lambda x: torch.sort(x).indices, (torch.tensor([1, 1, 3, 0, 0, 2, 2, 1] * 4),),
        INDUCTOR, "calm", CALM, "No order among equals was asked for.",
    ),
)  # fmt: skip

_CONVOLUTIONS = tuple(normal(8, 8, 3, 3, seed=20 + i) * 0.2 for i in range(6))
_PRODUCT = (normal(32, 512), normal(64, 512, seed=1))

EAGER = (
    Case(
        "eager_tier_gelu_inf", lambda x: F.gelu(x), (torch.full((16,), INF),), TIER,
        "finding", ("exceptional",),
        "The gelu vectorised with AVX-512 answers NaN for +inf, the plain one +inf: the reference is wrong.",
        blame="reference",
        needs=frozenset({"avx512f"}),
    ),
    Case(
        "eager_calm_matmul_medium", lambda x, w: F.linear(x, w), _PRODUCT, MEDIUM,
        "calm", CALM,
        "Lets float32 products run in bfloat16; this processor has no unit for it (AMX), and oneDNN stays in float32: "
        "5e-7 of the largest element. With such a unit it would be `reduced_precision`.",
    ),
    Case(
        "eager_autocast", lambda x, w: F.linear(x, w) + 1.0, _PRODUCT, AUTOCAST,
        "finding", ("reduced_precision", "structural"),
        "The product in bfloat16, and its output with it.",
        blame="platform",
    ),
    Case(
        "eager_calm_tier_sum", lambda x: x.sum(), (normal(1 << 20),), TIER, "calm", CALM,
        "Vectors of another width: another order of summation.",
    ),
    Case(
        "eager_calm_tier_softmax", lambda x: x.softmax(-1), (normal(4, 1000) * 20,), TIER, "calm", CALM,
        "Another exponential, another order.",
    ),
    Case(
        "eager_calm_tier_tail", lambda x: F.gelu(x), (torch.linspace(-5.4, -4.0, 32),), TIER, "calm", LOOSE,
        "1 + erf cancels, with another erf.",
    ),
    Case(
        "eager_calm_tier_stack", _linears, (normal(8, 64).half(), *_HALF), TIER, "calm", LOOSE,
        "Six layers in float16 through other kernels.",
    ),
    Case(
        "eager_calm_threads_sum", lambda x: x.sum(), (normal(1 << 20),), THREADS, "calm", CALM,
        "Split between two threads: another order of summation.",
    ),
    Case(
        "eager_calm_threads_norm", lambda x: F.group_norm(x, 1), (normal(1, 8, 64, 64) + 100,), THREADS, "calm", LOOSE,
        "One group of 32,768 values far from zero.",
    ),
    Case(
        "eager_calm_onednn_convolutions", _stack, (normal(1, 8, 16, 16), *_CONVOLUTIONS), NO_ONEDNN, "calm", LOOSE,
        "Winograd or direct against im2col and a product.",
    ),
    Case(
        "eager_calm_onednn_brain", _linears, (normal(8, 64).bfloat16(), *_BRAIN), NO_ONEDNN, "calm", LOOSE,
        "bfloat16 products accumulated in float32 by oneDNN and otherwise without it.",
    ),
    Case(
        "eager_calm_last_convolutions", _stack, (normal(2, 8, 16, 16), *_CONVOLUTIONS), LAST, "calm", LOOSE,
        "Other kernels for another layout, the same numbers.",
    ),
    Case(
        "eager_calm_last_batch_norm", lambda x: F.batch_norm(x, None, None, training=True),
        (normal(2, 8, 16, 16) + 100,), LAST, "calm", LOOSE,
        "Statistics summed in another order, of values far from zero.",
    ),
    Case(
        "eager_calm_last_pools", lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
        (_holed(1, 4, 9, 9),), LAST, "calm", CALM,
        "NaN reaches the same windows in either layout.",
    ),
    Case(
        "eager_calm_last_resize", lambda x: F.interpolate(x, size=(13, 7), mode="bilinear"), (normal(1, 4, 9, 9),),
        LAST, "calm", CALM, "The same weights, multiplied in another order.",
    ),
)  # fmt: skip

CASES: tuple[Case, ...] = FINDINGS + CALM_INDUCTOR + EAGER
