"""Forms in which people hand over a model: hooks, parametrisations, partial functions, scripts, kinds of results."""

import collections
import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations
from transformers.utils import ModelOutput


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.two(F.gelu(self.one(x)))


def net():
    torch.manual_seed(0)
    return Net().eval()


def rows(count=3):
    return (torch.randn(count, 6, generator=torch.Generator().manual_seed(1)),)


@dataclass
class Result:
    logits: torch.Tensor
    hidden: torch.Tensor | None = None


@dataclass
class Output(ModelOutput):
    logits: torch.Tensor = None
    attentions: tuple[torch.Tensor, ...] | None = None


class Pair(NamedTuple):
    mean: torch.Tensor
    deviation: torch.Tensor


class Returns(Net):
    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x):
        hidden = F.gelu(self.one(x))
        return self.form(self.two(hidden), hidden)


class Halved(nn.Module):
    def forward(self, weight):
        return weight / 2 + 0.1


class ReadOnly(collections.OrderedDict):
    def __init__(self, **values):
        super().__init__(**values)
        self.closed = True

    def __setitem__(self, key, value):
        if getattr(self, "closed", False):
            raise TypeError("this mapping is read-only")
        super().__setitem__(key, value)

    def update(self, *_, **__):
        raise TypeError("this mapping is read-only")

    def pop(self, *_):
        raise TypeError("this mapping is read-only")


class Configured(Net):
    def __init__(self):
        super().__init__()
        self.config = ReadOnly(width=8, scale=0.5)

    def forward(self, x):
        return super().forward(x) * self.config["scale"]


class WithCall(Net):
    """A subclass with a `__call__` of its own, which scales the results of `forward`."""

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) * 2


class UnusedSparse(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("pairs", torch.eye(4).to_sparse(), persistent=False)


class Options(Net):
    """Optional and keyword arguments, numbers, strings and a nested dictionary."""

    def forward(self, x, *, batch, scale=1.0, mode="sum", mask=None):
        y = super().forward(x) * scale
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        y = y + batch["features"]["bias"]
        return {"rows": y, "total": y.sum(0) if mode == "sum" else y.mean(0)}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(12, 6), nn.Linear(6, 12, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens):
        return self.out(torch.tanh(self.embedding(tokens)))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleDict({"a": nn.Linear(6, 6), "b": nn.Linear(6, 6)})
        self.gains = nn.ParameterList([nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor(2.0))])

    def forward(self, x):
        for stage, gain in zip(self.stages.values(), self.gains):
            x = x + gain * torch.sin(stage(x))
        return x


def hooks():
    model = net()
    model.one.register_forward_hook(lambda module, args, output: output.clamp(-0.5, 0.5))
    model.register_forward_pre_hook(lambda module, args: (args[0] * 1.5,))
    return model, rows()


def parametrised():
    model = net()
    torch.nn.utils.parametrize.register_parametrization(model.one, "weight", Halved())
    return model, rows()


def orthogonal():
    torch.manual_seed(0)
    return parametrizations.orthogonal(nn.Linear(6, 6)).eval(), rows()


def weight_norm():
    model = net()
    parametrizations.weight_norm(model.two)
    return model, rows()


def old_weight_norm():
    model = net()
    torch.nn.utils.weight_norm(model.two)
    return model, rows()


def spectral_norm():
    model = net()
    parametrizations.spectral_norm(model.one)
    return model.eval(), rows()


def tied_weights():
    torch.manual_seed(0)
    return Tied().eval(), (torch.tensor([[1, 3, 3], [0, 7, 11]]),)


def partial_function():
    model = net()
    return functools.partial(F.linear, weight=model.one.weight.detach(), bias=model.one.bias.detach()), rows()


def partial_of_a_module():
    model = Options().eval()
    bias = {"features": {"bias": torch.ones(4)}}
    return functools.partial(model, batch=bias, scale=0.5), rows()


def plain_function():
    weight = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))

    def project(x):
        return torch.relu(x @ weight)

    return project, rows()


def method_of_a_module():
    model = net()
    return model.one.forward, rows()


def scripted():
    return torch.jit.script(net()), rows()


def traced():
    return torch.jit.trace(net(), rows()), rows()


def exported():
    return torch.export.export(net(), rows()).module(), rows()


def compiled():
    return torch.compile(net()), rows()


def data_parallel():
    return nn.DataParallel(net()), rows()


def averaged():
    model = torch.optim.swa_utils.AveragedModel(net())
    model.update_parameters(net())
    return model.eval(), rows()


def call_of_its_own():
    torch.manual_seed(0)
    return WithCall().eval(), rows()


def dataclass_result():
    torch.manual_seed(0)
    return Returns(Result).eval(), rows()


def model_output_result():
    torch.manual_seed(0)
    return Returns(lambda logits, hidden: Output(logits=logits, attentions=(hidden,))).eval(), rows()


def named_tuple_result():
    torch.manual_seed(0)
    return Returns(Pair).eval(), rows()


def nested_result():
    torch.manual_seed(0)
    return Returns(lambda y, h: {"y": y, "parts": [h, (h.sum(), None, 3)]}).eval(), rows()


def keyword_arguments():
    torch.manual_seed(0)
    given = {"batch": {"features": {"bias": torch.ones(4)}}, "scale": 2.0, "mode": "mean", "mask": None}
    return Options().eval(), rows(), given


def read_only_mapping():
    torch.manual_seed(0)
    return Configured().eval(), rows()


def sparse_buffer():
    torch.manual_seed(0)
    return UnusedSparse().eval(), rows()


def containers():
    torch.manual_seed(0)
    return Branches().eval(), rows()


def lazy_layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3)).eval()
    model(*rows())
    return model, rows()


def several_arguments():
    return net(), [rows(3), rows(3)]
