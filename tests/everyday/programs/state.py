"""Programs that change something: their arguments, their buffers, attributes, a global."""

import torch
import torch.nn.functional as F
from torch import nn

CALLS = []


class WritesItsArgument(nn.Module):
    def forward(self, x, y):
        x.add_(1)
        x[:, 0] = 0
        return x * y


class WritesAView(nn.Module):
    def forward(self, x):
        half = x[..., : x.shape[-1] // 2]
        half.mul_(0.5).relu_()
        return x.sum(-1), x


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.seen += x.shape[0]
        self.mean.lerp_(x.mean(0), 0.1)
        return x - self.mean, self.seen * 1


class Momentum(nn.Module):
    """Replaces its buffer by a new tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("velocity", torch.ones(4))

    def forward(self, gradient):
        self.velocity = 0.9 * self.velocity + gradient
        return -0.01 * self.velocity


class Remembers(nn.Module):
    """Keeps the last result as an attribute, and adds it to the next."""

    def __init__(self):
        super().__init__()
        self.linear, self.last = nn.Linear(4, 4), None

    def forward(self, x):
        y = self.linear(x)
        if self.last is not None:
            y = y + self.last
        self.last = y.detach()
        return y


class MakesItsMask(nn.Module):
    """Makes a mask at the first call, and keeps it for as long as the length stays."""

    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, scores):
        if self.mask is None or self.mask.shape[-1] != scores.shape[-1]:
            self.mask = torch.full((scores.shape[-1],) * 2, float("-inf")).triu(1)
        return torch.softmax(scores + self.mask, -1)


class Appends(nn.Module):
    """Appends to a list of its own."""

    def __init__(self):
        super().__init__()
        self.linear, self.history = nn.Linear(4, 4), []

    def forward(self, x):
        y = self.linear(x)
        self.history.append(float(len(self.history)))
        return y


class WritesAGlobal(nn.Module):
    def forward(self, x):
        CALLS.append(x.shape)
        return x.exp()


class Pops(nn.Module):
    """Takes its input out of the dictionary that it is given."""

    def forward(self, batch):
        x = batch.pop("x")
        return x * batch["scale"]


class DropsOut(nn.Module):
    """Dropout in evaluation, and a mask from a seeded generator."""

    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        generator = torch.Generator().manual_seed(3)
        kept = torch.rand(x.shape, generator=generator) < 0.8
        return self.dropout(x) * kept / 0.8


class OutOfRunning(nn.Module):
    """A batch norm that keeps no statistics and one that does, in training."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.BatchNorm1d(4, track_running_stats=False), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.two(F.relu(self.one(x))), self.two.num_batches_tracked + 0


class WritesAParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.weight.add_(1)
        return x * self.weight


def rows(count=3, seed=1):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def writes_its_argument():
    return WritesItsArgument(), (rows(), rows(seed=2))


def writes_a_view():
    return WritesAView(), (rows(),)


def counting_buffer():
    return Counts(), (rows(),)


def replaced_buffer():
    return Momentum(), (rows(1)[0],)


def remembers_the_last_call():
    torch.manual_seed(0)
    return Remembers().eval(), (rows(),)


def mask_made_at_the_first_call():
    return MakesItsMask(), (torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(1)),)


def list_of_its_own():
    torch.manual_seed(0)
    return Appends().eval(), (rows(),)


def global_list():
    return WritesAGlobal(), (rows(),)


def popped_argument():
    return Pops(), ({"x": rows(), "scale": torch.tensor(2.0)},)


def dropout_with_a_generator():
    return DropsOut().eval(), (rows(),)


def batch_norm_in_training():
    torch.manual_seed(0)
    return OutOfRunning().train(), (rows(8),)


def writes_a_parameter():
    return WritesAParameter(), (rows(),)


class Denoises(nn.Module):
    """A scheduler of diffusers counts its steps, and keeps the last outputs."""

    def __init__(self):
        from diffusers import DPMSolverMultistepScheduler

        super().__init__()
        self.scheduler = DPMSolverMultistepScheduler()
        self.scheduler.set_timesteps(10)
        self.net = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, sample):
        step = self.scheduler.timesteps[3]
        return self.scheduler.step(self.net(sample), step, sample, return_dict=False)[0]


def scheduler_that_counts():
    torch.manual_seed(0)
    return Denoises().eval(), (torch.randn(1, 4, 8, 8),)
