"""Programs that are exported once and run at several sizes: the dimensions stand behind the keyword arguments."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(30, 8), nn.Linear(8, 3)

    def forward(self, tokens, mask):
        x = self.embedding(tokens) * mask[..., None]
        return self.out(x.sum(1) / mask.sum(1, keepdim=True))


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.mix = nn.Embedding(64, 8), nn.Linear(8, 8)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        h = self.mix(x + self.table(places))
        scores = (h @ h.mT) / 8**0.5
        return F.softmax(scores.masked_fill(places[None] > places[:, None], float("-inf")), -1) @ h


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, 2)

    def forward(self, x):
        y = F.relu(self.conv(x))
        y = F.interpolate(y, size=x.shape[2:], mode="bilinear")
        return F.adaptive_avg_pool2d(y, 1).flatten(1), y.reshape(x.shape[0], -1).amax(-1)


class Windows(nn.Module):
    """Pads a sequence to a multiple of four, and works on windows."""

    def forward(self, x):
        b, t, c = x.shape
        short = -t % 4
        windows = F.pad(x, (0, 0, 0, short)).reshape(b, -1, 4, c)
        return (windows - windows.mean(2, keepdim=True)).reshape(b, -1, c)[:, :t]


def rows_of_any_number():
    torch.manual_seed(0)
    args = torch.randint(0, 30, (3, 6)), torch.ones(3, 6)
    return (
        Pooled().eval(),
        args,
        {},
        {"tokens": {0: Dim("batch", min=1, max=8)}, "mask": {0: Dim("batch", min=1, max=8)}},
    )


def sequences_of_any_length():
    torch.manual_seed(0)
    return Positions().eval(), (torch.randn(2, 6, 8),), {}, {"x": {1: Dim("length", min=2, max=32)}}


def pictures_of_any_size():
    torch.manual_seed(0)
    sizes = {2: Dim("height", min=8, max=40), 3: Dim("width", min=8, max=40)}
    return Pictures().eval(), (torch.rand(1, 3, 12, 14),), {}, {"x": sizes}


def windows_of_any_length():
    torch.manual_seed(0)
    return Windows(), (torch.randn(1, 10, 3),), {}, {"x": {1: Dim("length", min=3, max=32)}}


def fixed_sizes():
    torch.manual_seed(0)
    return Pictures().eval(), (torch.rand(2, 3, 12, 12),)
