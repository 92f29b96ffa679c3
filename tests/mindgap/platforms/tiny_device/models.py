"""What `test_tiny_device.py` compares: a model that is right, one with the planted fault, one that falls back."""

import torch


def right():
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
    return torch.nn.Sequential(*layers).eval(), (torch.randn(5, 8),)


class Sums(torch.nn.Module):
    def forward(self, x, w):
        return torch.exp(torch.relu(x @ w) * 0.1).sum(1)


def wrong():
    torch.manual_seed(0)
    return Sums(), (torch.randn(5, 8), torch.randn(8, 7))


class Elsewhere(torch.nn.Module):
    def forward(self, x, w):
        return torch.softmax(torch.tanh(torch.relu(x @ w)), -1)


def elsewhere():
    torch.manual_seed(0)
    return Elsewhere(), (torch.randn(5, 8), torch.randn(8, 7))
