"""Message passing in the style of graph libraries."""


import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import Linear, Parameter, functional as F


def scatter_add(src: Tensor, index: Tensor, size: int) -> Tensor:
    out = src.new_zeros(size, src.size(-1))
    return out.scatter_add_(0, index.view(-1, 1).expand_as(src), src)


def softmax(src: Tensor, index: Tensor, count: int) -> Tensor:
    top = src.new_full((count,), -1e9).scatter_reduce(0, index, src, reduce="amax", include_self=False)
    out = (src - top.index_select(0, index)).exp()
    total = torch.zeros(count).index_add(0, index, out)
    return out / (total[index] + 1e-16)


def normalised(adjacency: sp.csr_matrix):
    rows = np.array(adjacency.sum(1)).flatten()
    inverse = np.power(rows, -0.5)
    inverse[np.isinf(inverse)] = 0.0
    diagonal = sp.diags(inverse)
    return diagonal.dot(adjacency).dot(diagonal).tocoo()


class Conv(torch.nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.lin = Linear(channels, channels, bias=False)
        self.att = Parameter(torch.empty(1, channels))
        torch.nn.init.xavier_uniform_(self.att)

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None = None) -> Tensor:
        row, col = edge_index[0], edge_index[1]
        x = self.lin(x)
        alpha = F.leaky_relu((x[row] * self.att).sum(-1), 0.2)
        alpha = softmax(alpha, col, x.size(0))
        deg = torch.bincount(col, minlength=x.size(0)).pow(-0.5).masked_fill_(torch.isinf(alpha).any(), 0)
        return self.aggregate(x[row] * alpha.unsqueeze(-1), col, deg)

    def aggregate(self, inputs, index, deg):
        return scatter_add(inputs, index, deg.numel()) * deg.view(-1, 1)
