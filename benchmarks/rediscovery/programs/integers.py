"""Integers and bools: shifts, division, overflow, results that wrap."""

import torch


def floor_divide_lowest():
    lowest = torch.iinfo(torch.int32).min
    return torch.floor_divide, (torch.tensor([lowest, 9], dtype=torch.int32), torch.tensor([-1, 2], dtype=torch.int32))


def abs_then_wrap():
    def f(x):
        y = -x.abs()
        return torch.cat([y, y]).sum()

    return f, (torch.tensor([200, 150], dtype=torch.uint8),)


def any_of_bytes():
    return lambda x: torch.any(x) * 200 + 100, (torch.tensor([[0, 3], [0, 0]], dtype=torch.uint8),)


def min_of_bytes():
    values = torch.tensor([5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80])
    return lambda x: (x.amin(), x.argmin()), (values.to(torch.uint8),)


def arange_times_large():
    return lambda x: torch.arange(12) * 1500000000 + x, (torch.zeros(1, dtype=torch.long),)


def product_of_vector_and_matrix():
    x = torch.arange(24).reshape(2, 3, 4).to(torch.int32)
    return torch.bmm, (x, torch.arange(8).reshape(2, 4, 1).to(torch.int32))


def mantissa_times_exponent():
    def f(x):
        mantissa, exponent = torch.frexp(x)
        return mantissa * exponent

    torch.manual_seed(0)
    return f, (torch.randn(8, 4),)
