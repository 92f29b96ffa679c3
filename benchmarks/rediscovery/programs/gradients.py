"""Gradients: run with `--backward`, or written in the program."""

import torch
from torch.nn import functional as F


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
