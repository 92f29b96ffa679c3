"""Graph nets: torch_geometric's layers, and messages written out."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool

EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 5, 2, 0], [1, 0, 2, 1, 4, 3, 5, 4, 0, 2]])


class Convolved(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = GCNConv(5, 8), GCNConv(8, 3)

    def forward(self, x, edges):
        return self.two(F.relu(self.one(x, edges)), edges).log_softmax(-1)


class Attended(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = GATConv(5, 4, heads=2), GATConv(8, 3)

    def forward(self, x, edges):
        return self.two(F.elu(self.one(x, edges)), edges)


class Pooled(nn.Module):
    """A classifier of whole graphs; `batch` says which graph a vertex is of, and there are two."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = SAGEConv(5, 8), nn.Linear(8, 2)

    def forward(self, x, edges, batch):
        return self.out(global_mean_pool(F.relu(self.layer(x, edges)), batch, size=2))


class Isomorphism(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = GINConv(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4)))

    def forward(self, x, edges):
        return self.layer(x, edges)


class Messages(nn.Module):
    """Messages along edges, added at their ends by `index_add`, and the largest by `scatter_reduce`."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(10, 8), nn.Linear(5 + 16, 4)

    def forward(self, x, edges):
        source, target = edges
        sent = F.relu(self.message(torch.cat([x[source], x[target]], -1)))
        total = torch.zeros(x.shape[0], 8).index_add(0, target, sent)
        index = target[:, None].expand_as(sent)
        largest = torch.zeros(x.shape[0], 8).scatter_reduce(0, index, sent, "amax", include_self=False)
        return self.update(torch.cat([x, total, largest], -1))


class SparseProduct(nn.Module):
    """Neighbours by a sparse adjacency that is a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("adjacency", torch.sparse_coo_tensor(EDGES, torch.ones(10), (6, 6)).coalesce())
        self.linear = nn.Linear(5, 3)

    def forward(self, x):
        return torch.sparse.mm(self.adjacency, self.linear(x))


def vertices():
    return torch.randn(6, 5)


def graph_convolution():
    torch.manual_seed(0)
    return Convolved().eval(), (vertices(), EDGES)


def graph_attention():
    torch.manual_seed(0)
    return Attended().eval(), (vertices(), EDGES)


def pooled_graphs():
    torch.manual_seed(0)
    return Pooled().eval(), (vertices(), EDGES, torch.tensor([0, 0, 0, 1, 1, 1]))


def graph_isomorphism():
    torch.manual_seed(0)
    return Isomorphism().eval(), (vertices(), EDGES)


def messages_written_out():
    torch.manual_seed(0)
    return Messages().eval(), (vertices(), EDGES)


def sparse_adjacency():
    torch.manual_seed(0)
    return SparseProduct().eval(), (vertices(),)


class MaskedNodes(nn.Module):
    """Node classification: the loss of the nodes of a boolean mask."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(4, 3)

    def forward(self, x, edge_index, y, train_mask):
        out = self.conv(x, edge_index)
        return F.cross_entropy(out[train_mask], y[train_mask]), out[~train_mask]


def masked_nodes():
    torch.manual_seed(0)
    x, edges = torch.randn(6, 4), torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
    return MaskedNodes().eval(), (
        x,
        edges,
        torch.randint(0, 3, (6,)),
        torch.tensor([True, True, False, True, False, True]),
    )
