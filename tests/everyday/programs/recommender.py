"""Recommenders and tables: bags of categories, crossed features, two towers, ranked lists."""

import torch
import torch.nn.functional as F
from torch import nn


class Interactions(nn.Module):
    """Dense features and bags of categories, their products in pairs, a score."""

    def __init__(self):
        super().__init__()
        self.bottom = nn.Linear(4, 6)
        self.bags = nn.ModuleList(nn.EmbeddingBag(size, 6, mode="sum") for size in (30, 50))
        self.top = nn.Linear(6 + 3, 1)

    def forward(self, dense, first, first_offsets, second, second_offsets):
        x = F.relu(self.bottom(dense))
        given = ((first, first_offsets), (second, second_offsets))
        parts = torch.stack([x, *(bag(index, offsets) for bag, (index, offsets) in zip(self.bags, given))], 1)
        products = parts @ parts.mT
        row, column = torch.triu_indices(3, 3, 1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, row, column]], 1)))


class WeightedBag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(30, 6, mode="sum", padding_idx=0)

    def forward(self, categories, weights):
        return self.bag(categories, per_sample_weights=weights)


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items, self.user, self.item = (
            nn.Embedding(20, 8),
            nn.Embedding(40, 8),
            nn.Linear(8, 8),
            nn.Linear(8, 8),
        )

    def forward(self, users, items):
        one = F.normalize(self.user(self.users(users)), dim=-1)
        two = F.normalize(self.item(self.items(items)), dim=-1)
        scores = one @ two.T / 0.07
        return scores, scores.topk(3).indices


class Factorisation(nn.Module):
    """Linear terms, pairs by the square of a sum, and a net."""

    def __init__(self):
        super().__init__()
        self.linear, self.factors = nn.Embedding(60, 1), nn.Embedding(60, 5)
        self.net = nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, fields):
        x = fields + torch.tensor([0, 15, 30, 45])
        v = self.factors(x)
        pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(-1, keepdim=True)
        return self.linear(x).sum(1) + pairs + self.net(v.flatten(1))


class History(nn.Module):
    """Attention of a candidate over what was clicked; clicks beyond the length weigh nothing."""

    def __init__(self):
        super().__init__()
        self.items, self.score = nn.Embedding(40, 8), nn.Linear(24, 1)

    def forward(self, clicked, length, candidate):
        past, now = self.items(clicked), self.items(candidate)[:, None].expand(-1, clicked.shape[1], -1)
        weight = self.score(torch.cat([past, now, past * now], -1)).squeeze(-1)
        weight = weight.masked_fill(torch.arange(clicked.shape[1])[None] >= length[:, None], -1e9)
        return (weight.softmax(-1)[..., None] * past).sum(1)


def embedding_bags():
    torch.manual_seed(0)
    first, second = torch.randint(0, 30, (7,)), torch.randint(0, 50, (5,))
    return Interactions().eval(), (torch.randn(3, 4), first, torch.tensor([0, 2, 5]), second, torch.tensor([0, 1, 4]))


def weighted_bag():
    torch.manual_seed(0)
    return WeightedBag().eval(), (torch.randint(0, 30, (3, 4)), torch.rand(3, 4))


def two_towers():
    torch.manual_seed(0)
    return TwoTowers().eval(), (torch.tensor([1, 4, 9]), torch.arange(0, 40, 3))


def factorisation_machine():
    torch.manual_seed(0)
    return Factorisation().eval(), (torch.randint(0, 15, (4, 4)),)


def click_history():
    torch.manual_seed(0)
    return History().eval(), (torch.randint(0, 40, (3, 6)), torch.tensor([6, 2, 4]), torch.tensor([3, 8, 1]))
