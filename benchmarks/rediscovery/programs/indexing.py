"""Writes and reads by index: `index_put`, scatter, slices, views that overlap, updates in place."""

import torch


def add_to_repeated_row_of_argument():
    def f(x):
        x[[0, 0]] += x[[0, 0]]
        return x

    return f, (torch.tensor([[-0.75, 0.5], [1.0, 2.0]]),)


def write_then_add_flipped():
    def f(x):
        x.index_put_((torch.arange(x.size(0)),), x * 2.0)
        x.add_(x.flip(0))
        return x

    torch.manual_seed(0)
    return f, (torch.rand(4, 8),)


def foreach_add_flipped():
    def f(x):
        torch._foreach_add_([x], [x.flip(0)])
        return x

    torch.manual_seed(0)
    return f, (torch.rand(8, 8),)


def read_before_write_through_other_dtype():
    def f(x):
        y = x.view(torch.int32) * 2
        y.sub_(-4)
        x[:, 2:5] = 2
        return y.view(torch.int64)

    return f, (torch.arange(-12, 12).reshape(4, 6),)


def add_into_unfolded():
    def f(x):
        y = x.clone()
        y.unfold(0, 2, 3).add_(10)
        return y

    return f, (torch.arange(12.0),)


def select_scatter_of_integers():
    return lambda x: torch.select_scatter(x, torch.tensor([0]), 1, 0), (torch.linspace(1.0, 2.0, 10)[None],)


def tensor_of_size():
    def f(x):
        return torch.Tensor(x.size()).fill_(2.0)

    return f, (torch.ones(3, 2),)


def mask_written_by_index():
    def f(x):
        mask = torch.full((8, 8), -10000.0)
        mask[torch.arange(8)[None], torch.arange(8)[:, None]] = 0
        return torch.softmax(x + mask, -1)

    torch.manual_seed(0)
    return f, (torch.randn(8, 8),)


def cumsum_to_bfloat16():
    return lambda x: (torch.ones((2, 4, 4), dtype=torch.bool).cumsum(1, dtype=torch.bfloat16), x + 1), (torch.ones(4),)
