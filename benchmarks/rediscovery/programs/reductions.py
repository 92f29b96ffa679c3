"""Reductions, and what is computed of them."""

import torch
from torch.nn import functional as F


def argmax_of_sum_with_transposed():
    torch.manual_seed(0)
    return lambda a, b: (a + b).max(dim=1), (torch.randn(8, 8).t(), torch.randn(8, 8))


def argmax_after_sine_transposed():
    def f(x):
        return x.clone().sin_().t().argmax()

    torch.manual_seed(0)
    return f, (torch.randn(6, 8),)


def argmax_over_all_of_transposed():
    torch.manual_seed(0)
    return lambda x: (x.t() * 2).argmax(), (torch.randn(6, 8),)


def softmax_of_weighted_sums():
    def f(x, rates):
        energy = torch.exp(-torch.einsum("i...,i->i...", x, rates))
        return torch.einsum("i,i...->i...", 1 / torch.einsum("i...->i", energy), energy)

    return f, (torch.ones(5, 1, 32, 32), torch.ones(5))


def std_of_large():
    torch.manual_seed(0)
    return lambda x: x.std(), (torch.randn(64) * 1e20,)


def product_to_bool():
    torch.manual_seed(0)
    return lambda x: torch.prod(x, dtype=torch.bool), (torch.randn(3, 4),)


def multilabel_margin():
    torch.manual_seed(0)
    return F.multilabel_margin_loss, (torch.randn(2, 5), torch.tensor([[2, 0, -1, 3, 1], [1, -1, 2, 0, 4]]))


def cumsum_of_constant():
    return lambda x: torch.cumsum(torch.full((), 2.0), 0) + x, (torch.ones(3),)


def product_with_padded_channels_last():
    def f(x):
        y = F.gelu(x)
        keys = F.pad(y.permute(3, 2, 1, 0), (0, 0, 0, 58), value=0.5)
        return F.pad(y, (0, 0, 0, 0, 0, 58), value=0.5) @ keys

    torch.manual_seed(0)
    return f, (torch.rand(1, 8, 66, 66).contiguous(memory_format=torch.channels_last),)


def argmin_after_tangent_transposed():
    def f(x):
        return x.clone().tan_().t().argmin()

    torch.manual_seed(0)
    return f, (torch.randn(4, 6),)
