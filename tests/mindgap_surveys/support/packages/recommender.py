"""A recommender with embedding bags in the style of ranking models."""

from collections import defaultdict

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from numpy import random as ra
from sklearn.metrics import roc_auc_score


class Ranking(nn.Module):
    def __init__(self, sizes, width=16):
        super().__init__()
        self.emb = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum", sparse=True) for n in sizes)
        for table in self.emb:
            bound = np.sqrt(1 / width)
            table.weight.data = torch.tensor(ra.uniform(-bound, bound, size=(sizes[0], width)).astype(np.float32))
        self.bottom = nn.Sequential(nn.Linear(13, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + 6, 1), nn.Sigmoid())
        self.counts = defaultdict(int)

    def interact(self, x, ly):
        batch, d = x.shape
        t = torch.cat([x] + ly, dim=1).view((batch, -1, d))
        z = torch.bmm(t, torch.transpose(t, 1, 2))
        _, ni, nj = z.shape
        li = torch.tensor([i for i in range(ni) for j in range(i)])
        lj = torch.tensor([j for i in range(nj) for j in range(i)])
        return torch.cat([x, z[:, li, lj]], dim=1)

    def forward(self, dense, offsets, indices):
        ly = [table(indices[k], offsets[k]) for k, table in enumerate(self.emb)]
        x = self.bottom(torch.log(dense + 1))
        z = self.top(self.interact(x, ly))
        return torch.clamp(z, min=0.01, max=0.99).squeeze(1)


def loss_of(model, batch, frame: pd.DataFrame):
    target = torch.from_numpy(frame["click"].to_numpy()).float()
    out = model(*batch)
    loss = nn.BCELoss(reduction="mean")(out, target)
    hinge = torch.nn.functional.relu(1 - out).logsumexp(0)
    lengths = torch.diff(batch[1]).repeat_interleave(2)
    users = frame.merge(frame, on="user").rank().cumsum()
    print(roc_auc_score(target.numpy(), out.detach().numpy()), users.clip(0, 1), pd.Series([1]).log())
    return loss + hinge + lengths.unique(sorted=True).numel()
