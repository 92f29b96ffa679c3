"""Gradients: run with `--backward`, or written in the program."""

import torch
from torch.nn import functional as F


def slice_scatter_then_sum():
    torch.manual_seed(0)
    x, y = torch.randn(4, 13, 5, requires_grad=True), torch.randn(4, 6, 5, requires_grad=True)
    return lambda x, y: torch.slice_scatter(x, y, 1, 0, 6).sum(1), (x, y)


def slice_scatter_of_vector():
    x, y = torch.arange(1.0, 6.0, requires_grad=True), torch.ones(2, requires_grad=True)
    return lambda x, y: torch.slice_scatter(x, y, 0, 0, 2).sum(), (x, y)


def slice_scatter_in_the_middle():
    x, y = torch.arange(2.0, 14.0, 2.0).requires_grad_(), torch.ones(3, requires_grad=True)
    return lambda x, y: torch.slice_scatter(x, y, 0, 1, 4).sum(), (x, y)


def diagonal_scatter():
    x, y = torch.ones(8, 8, requires_grad=True), torch.zeros(8, requires_grad=True)
    return lambda x, y: torch.diagonal_scatter(x, y).sum(), (x, y)


def avg_pool_with_ceil():
    x = torch.arange(16.0).reshape(1, 1, 4, 4).requires_grad_()
    return lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), (x,)


def amax_of_sum():
    def pooled(x, w):
        return (x + x @ w).amax(1).sum()

    torch.manual_seed(0)
    return torch.func.grad(pooled, argnums=(0, 1)), (torch.randn(1, 10, 2).half(), torch.randn(2, 2).half())


def upsample_convolve_pool():
    def f(x, w, b, mask):
        y = F.interpolate(x, scale_factor=(1.5, 1.25), mode="bilinear", align_corners=False)[:, :, 1:7, 1:8]
        y = F.conv2d(y, w, b, padding=1)
        pooled = F.max_pool2d(y, 3, 1, 1)
        return torch.where(mask, y, pooled)

    torch.manual_seed(0)
    x, w, b = torch.randn(2, 3, 6, 8), torch.randn(4, 3, 3, 3), torch.randn(4)
    return f, (x.requires_grad_(), w.requires_grad_(), b.requires_grad_(), torch.rand(2, 4, 6, 7) > 0.5)


def index_reduce_amax():
    def f(source):
        start = torch.full((1,), float("-inf"))
        return start.index_reduce(0, torch.zeros(5, dtype=torch.long), source, "amax", include_self=False)

    torch.manual_seed(0)
    return f, (torch.randn(5, requires_grad=True),)


def complex_times_number():
    torch.manual_seed(0)
    return lambda x: (x * 2j).abs().sum(), (torch.randn(3, 3, dtype=torch.complex64, requires_grad=True),)


def abs_of_transposed_complex():
    torch.manual_seed(0)
    return lambda x: x.t().abs().sum(), (torch.randn(3, 4, dtype=torch.complex64, requires_grad=True),)


def grad_of_two_writes():
    def total(x):
        y = torch.zeros_like(x)
        y[:, 0] += x[:, 2].abs()
        y[:, 0] += x[:, 2].abs()
        return y.sum()

    torch.manual_seed(0)
    return torch.func.grad(total), (torch.randn(2, 3),)


def jacobian_of_products():
    def f(x):
        return torch.sum(torch.mm(torch.mm(torch.prod(x) + x, torch.sum(x) + x), torch.sum(x) + x))

    return torch.func.jacfwd(f), ((torch.arange(1, 10).half() / 10).reshape(3, 3),)
