"""Control that depends on values: branches, loops, sizes, numbers and arrays taken out of tensors."""

import numpy as np
import torch
from torch import nn


class BranchOnSum(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            return self.one(x)
        return self.two(x) * 3


class BranchOnShape(nn.Module):
    def forward(self, x):
        if x.shape[0] > 1 and x.dim() == 2:
            return x.mean(0)
        return x.squeeze(0)


class UntilSmall(nn.Module):
    """Halves until the norm is below one."""

    def forward(self, x):
        steps = 0
        while x.norm() > 1:
            x, steps = x * 0.5, steps + 1
        return x + steps


class OverRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        state = torch.zeros(4)
        rows = []
        for row in x:
            state = torch.tanh(self.linear(row) + state)
            rows.append(state)
        return torch.stack(rows)


class SizeFromValues(nn.Module):
    """As many rows as the largest number says."""

    def forward(self, lengths, x):
        width = int(lengths.max())
        mask = torch.arange(width)[None] < lengths[:, None]
        return x[:, :width] * mask[..., None]


class Selected(nn.Module):
    """The rows above the mean, as many as there are."""

    def forward(self, x):
        kept = x[x.sum(-1) > x.sum(-1).mean()]
        return kept * 2 + 1


class SelectedMean(nn.Module):
    """A mean over selected elements: the size inside depends on values, that of the result does not."""

    def forward(self, x):
        return x[x > 0].mean(), x[x < 0].pow(2).sum()


class NumberTakenOut(nn.Module):
    def forward(self, x):
        scale = x.abs().max().item()
        return x / scale


class ThroughNumpy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x).detach().numpy()
        return torch.from_numpy(np.sort(y, -1)) * 2


class ThroughAList(nn.Module):
    def forward(self, lengths, x):
        return torch.stack([x[n, :length].mean() for n, length in enumerate(lengths.tolist())])


class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.heads = (
            nn.ModuleList(nn.Linear(4, 4) for _ in range(3)),
            nn.ModuleList(nn.Linear(4, 2) for _ in range(3)),
        )

    def forward(self, x):
        for layer, head in zip(self.layers, self.heads):
            x = torch.relu(layer(x))
            answer = head(x).softmax(-1)
            if answer.max() > 0.6:
                break
        return answer


class Checked(nn.Module):
    def forward(self, x):
        assert torch.isfinite(x).all(), "the input has NaN or infinities"
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        return x.log1p()


class Distinct(nn.Module):
    def forward(self, tokens):
        values, counts = torch.unique(tokens, return_counts=True)
        return values, counts, torch.unique_consecutive(tokens)


class Places(nn.Module):
    def forward(self, x):
        return torch.nonzero(x > 0.5), torch.argwhere(x < -0.5)


class Repeated(nn.Module):
    def forward(self, x, counts):
        return torch.repeat_interleave(x, counts, dim=0)


def rows(count=3, width=4, seed=1):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def branch_on_a_sum():
    torch.manual_seed(0)
    return BranchOnSum().eval(), (rows().abs(),)


def branch_on_a_shape():
    return BranchOnShape(), (rows(),)


def loop_until_small():
    return UntilSmall(), (rows() * 5,)


def loop_over_rows():
    torch.manual_seed(0)
    return OverRows().eval(), (rows(),)


def size_from_values():
    return SizeFromValues(), (torch.tensor([2, 5, 3]), torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(1)))


def selected_rows():
    return Selected(), (rows(6),)


def mean_of_selected():
    return SelectedMean(), (rows(6),)


def number_taken_out():
    return NumberTakenOut(), (rows(),)


def through_numpy():
    torch.manual_seed(0)
    return ThroughNumpy().eval(), (rows(),)


def through_a_list():
    return ThroughAList(), (torch.tensor([1, 4, 2]), rows(3, 5))


def early_exit():
    torch.manual_seed(0)
    return EarlyExit().eval(), (rows(1),)


def checked_input():
    return Checked(), (rows().abs(),)


def distinct_values():
    return Distinct(), (torch.tensor([3, 3, 1, 7, 7, 7, 1]),)


def places_of_values():
    return Places(), (rows(4),)


def repeated_rows():
    return Repeated(), (rows(), torch.tensor([1, 0, 3]))
