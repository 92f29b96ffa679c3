"""Elementwise arithmetic: special functions, NaN and infinity, casts."""

import torch
from torch.nn import functional as F


def polygamma_of_order_zero():
    return lambda x: torch.special.polygamma(0, x), (torch.tensor([2.0, 0.5, 7.0]),)


def floor_divide_below_integer():
    return lambda a, b: a // b, (torch.tensor([1.0, 0.5, 6.0]), torch.tensor([0.1, 0.1, 0.2]))


def remainder_of_large():
    return torch.remainder, (torch.linspace(1e6, 2e6, 64), torch.full((64,), 6.2831855))


def remainder_by_python_number():
    return lambda x: x % 0.1, (torch.linspace(0.1, 9.0, 40).bfloat16(),)


def sine_of_arctangent_of_nan():
    return lambda x: torch.sin(torch.atan(x)), (torch.tensor([float("nan")]),)


def erf_of_small():
    return torch.erf, (torch.logspace(-8, -2, 32),)


def zero_times_infinity():
    return lambda x: F.softshrink(x) + x * 0, (torch.tensor([float("nan"), float("inf"), 1.0, -2.0]),)


def negative_zero_plus_zeros():
    return lambda x: 1 / (x + torch.zeros(4)), (torch.tensor([-0.0, 0.0, 1.0, -2.0]),)


def half_overflow_seen_as_finite():
    def f(x):
        y = x * x
        return torch.isinf(y), torch.where(torch.isinf(y), torch.zeros_like(y), y)

    return f, (torch.full((40,), 300.0, dtype=torch.float16),)


def minimum_of_signed_zeros():
    return lambda x, y: 1 / torch.minimum(x, y), (torch.tensor([-0.0, 1.0]), torch.tensor([0.0, 2.0]))


def bools_to_float8():
    return lambda x: x.to(torch.float8_e4m3fn).float(), (torch.ones(64, dtype=torch.bool),)


def softmax_of_nan_constant():
    def f(x):
        ones = torch.ones(2, 2)
        return x + torch.softmax(torch.acosh(torch.log2(torch.atan2(ones, ones))), -1)

    return f, (torch.zeros(2, 2),)


def infinite_constant_to_integers():
    return lambda x: x + torch.log(torch.zeros(3)).sum(dtype=torch.int32) * 0, (torch.ones(4, dtype=torch.int32),)


def complex_plus_broadcast():
    return lambda x: x + torch.ones(2, 1, dtype=torch.complex64), (torch.full((2, 2), 1 + 0j, dtype=torch.complex64),)


def complex_plus_conjugate():
    torch.manual_seed(0)
    return lambda x: x + torch.conj(x), (torch.randn(5, 5, dtype=torch.complex64),)


def complex_scalar_twice():
    def f(x):
        y = torch.scalar_tensor(2.5, dtype=torch.complex64)
        return x + (y + y)

    return f, (torch.ones(3, dtype=torch.complex64),)


def addmm_without_input():
    out = torch.full((1, 4), float("nan"))
    return lambda a, b, c: torch.addmm(a, b, c, beta=0.0), (out, torch.ones(1, 3), torch.ones(3, 4))


def ldexp_of_two_dtypes():
    return torch.ldexp, (torch.tensor([1.0, 2.0], dtype=torch.float16), torch.tensor([3.0, 4.0]))


def cross_entropy_of_half_with_weight():
    def f(x, y, w):
        return F.binary_cross_entropy(x, y, w)

    torch.manual_seed(0)
    return f, (torch.rand(4).half(), torch.rand(4).half(), torch.rand(4))


def nextafter_of_half():
    return torch.nextafter, (torch.ones(4).bfloat16(), torch.full((4,), 2.0).bfloat16())


def upsample_that_keeps_a_size():
    return lambda x: F.interpolate(x, scale_factor=(1.3, 1.5), mode="bilinear"), (
        torch.arange(12.0).reshape(1, 1, 3, 4),
    )
