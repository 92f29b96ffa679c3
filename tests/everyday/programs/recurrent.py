"""Recurrent nets: packed and padded sequences, cells in a loop, states that go in and come out."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class PackedTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.out = (
            nn.Embedding(40, 8),
            nn.LSTM(8, 6, batch_first=True, bidirectional=True),
            nn.Linear(12, 4),
        )

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=tokens.shape[1])
        return self.out(x)


class PaddedClassifier(nn.Module):
    """Takes the state at the last real place of each row."""

    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.out = (
            nn.Embedding(40, 8),
            nn.LSTM(8, 6, num_layers=2, batch_first=True),
            nn.Linear(6, 3),
        )

    def forward(self, tokens, lengths):
        x, _ = self.lstm(self.embedding(tokens))
        last = x[torch.arange(tokens.shape[0]), lengths - 1]
        return self.out(last)


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(5, 8), nn.Linear(8, 5)

    def forward(self, x):
        h, c = torch.zeros(x.shape[0], 8), torch.zeros(x.shape[0], 8)
        steps = []
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
            steps.append(self.out(h))
        return torch.stack(steps, 1)


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(5, 8, 2)

    def forward(self, x, state):
        return self.gru(x, state)


class SpatialCell(nn.Module):
    """A convolutional LSTM over four frames."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Conv2d(2 + 4, 16, 3, padding=1)

    def forward(self, frames):
        b, t, _, height, width = frames.shape
        h = c = frames.new_zeros(b, 4, height, width)
        for n in range(t):
            i, f, o, g = self.gates(torch.cat([frames[:, n], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h


def packed():
    torch.manual_seed(0)
    return PackedTagger().eval(), (torch.randint(0, 40, (3, 7)), torch.tensor([7, 3, 5]))


def padded():
    torch.manual_seed(0)
    return PaddedClassifier().eval(), (torch.randint(0, 40, (3, 7)), torch.tensor([7, 3, 5]))


def cells_in_a_loop():
    torch.manual_seed(0)
    return Cells().eval(), (torch.randn(2, 6, 5),)


def state_in_and_out():
    torch.manual_seed(0)
    return Stateful().eval(), (torch.randn(6, 2, 5), torch.randn(2, 2, 8))


def elman_with_relu():
    torch.manual_seed(0)
    return nn.RNN(4, 6, nonlinearity="relu", batch_first=True).eval(), (torch.randn(2, 5, 4),)


def convolutional_lstm():
    torch.manual_seed(0)
    return SpatialCell().eval(), (torch.randn(1, 4, 2, 6, 6),)
