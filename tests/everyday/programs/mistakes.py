"""Mistakes of the user's own: each is refused with the user's line and PyTorch's words, and stops no other program."""

import torch
from torch import nn


class WrongView(nn.Module):
    def forward(self, x):
        return x.view(7, -1)


class WrongSizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x):
        return self.linear(x)


class Raises(nn.Module):
    def forward(self, x):
        raise ValueError("a list of prompts is expected, not a tensor")


class RaisesInVmap(nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: row * torch.rand(()))(x)


class ReturnsNothing(nn.Module):
    def forward(self, x):
        x.sum()


def rows():
    return (torch.ones(3, 4),)


def wrong_view():
    return WrongView(), rows()


def wrong_sizes():
    return WrongSizes(), rows()


def raises():
    return Raises(), rows()


def raises_while_mapped():
    return RaisesInVmap(), rows()


def returns_nothing():
    return ReturnsNothing(), rows()


def too_few_arguments():
    return nn.Bilinear(4, 4, 2), rows()


def weights_on_meta():
    with torch.device("meta"):
        return nn.Linear(4, 4), rows()


def raises_when_built():
    return nn.Linear(4, 4).load_state_dict({"weight": torch.ones(3)}), rows()


def index_out_of_range():
    return nn.Embedding(5, 3), (torch.tensor([1, 9]),)
