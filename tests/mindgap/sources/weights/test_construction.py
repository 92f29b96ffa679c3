"""Models built without random numbers: their statistics, their sizes, and constructors that go wrong."""

import os

import pytest
import torch
from torch import nn

from mindgap.sources.source import SourceError, SourceOptions, parse
from mindgap.sources.weights.construction import construct, parameters_of
from mindgap.sources.weights.initialisation import QuantileInitialisation
from mindgap_zoo.argument_makers.argument_specs import filled, normal, zeros_and_ones
from mindgap_zoo.argument_makers.image_inputs import with_arguments

SOURCE = parse("timm:resnet18")


class Truncated(nn.Module):
    """Draws until all values suit it, as `trunc_normal_` does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((64, 100), 9.0))
        nn.init.trunc_normal_(self.weight, std=1.0, a=-1.0, b=1.0)


def test_initial_values_have_the_statistics_of_their_distribution():
    with QuantileInitialisation():
        linear = nn.Linear(256, 512)
        normal = torch.empty(100, 90).normal_(3.0, 0.5)
        uniform = nn.init.uniform_(torch.empty(10_000), -2.0, 4.0)
        drawn = torch.randn(80, 50)
    bound = 1 / 16
    weight = linear.weight.detach()
    assert weight.max() == pytest.approx(bound, rel=1e-3)
    assert weight.std() == pytest.approx(2 * bound / 12**0.5, rel=1e-2)
    assert normal.mean() == pytest.approx(3.0, abs=0.01) and normal.std() == pytest.approx(0.5, rel=0.01)
    assert uniform.min() == pytest.approx(-2, abs=0.01) and uniform.max() == pytest.approx(4, abs=0.01)
    assert drawn.std() == pytest.approx(1.0, rel=0.02)


def test_initial_values_do_not_come_from_the_generator():
    def weight():
        return construct(SOURCE, SourceOptions(), lambda: nn.Linear(64, 64)).weight

    torch.manual_seed(0)
    first = weight()
    torch.rand(3)
    assert torch.equal(first, weight())
    assert not torch.equal(
        first, construct(SOURCE, SourceOptions(), lambda: nn.Sequential(*two())).get_parameter("1.weight")
    )


def two():
    return nn.Linear(64, 64), nn.Linear(64, 64)


def test_a_constructor_that_draws_until_it_is_content_comes_to_an_end():
    weight = construct(SOURCE, SourceOptions(), Truncated).weight
    assert weight.abs().max() <= 1.0 and weight.std() > 0.4
    assert parameters_of(SOURCE, Truncated) == 6400


def test_parameters_are_counted_without_memory_for_them():
    import psutil

    before = psutil.Process(os.getpid()).memory_info().rss
    count = parameters_of(SOURCE, lambda: nn.Sequential(nn.Linear(20_000, 20_000), nn.LayerNorm(10)))
    assert count == 20_000 * 20_001 + 20
    assert psutil.Process(os.getpid()).memory_info().rss - before < 200e6


def test_a_constructor_that_raises_is_named():
    def broken():
        raise ZeroDivisionError("no heads\nat all")

    with pytest.raises(SourceError, match=r"timm:resnet18: its constructor raised ZeroDivisionError: no heads$"):
        construct(SOURCE, SourceOptions(), broken)


class Unset(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        junk = torch.full((60, 70), 3e20)
        del junk  # Its memory is what the next tensor gets.
        self.weight = nn.Parameter(torch.Tensor(60, 70))
        self.register_buffer("places", torch.empty(60, 70))

    def forward(self, x):
        return x @ self.weight + self.places.sum()


def test_what_a_constructor_leaves_unset_is_the_same_everywhere():
    model = construct(SOURCE, SourceOptions(), Unset)
    assert (model.weight == 0).all() and (model.places == 0).all()
    built = with_arguments(model, [normal("2 60")], SourceOptions())
    assert 0 < model.weight.abs().max() < 1 and built.registry.knows(model.weight.detach().numpy())
    assert not torch.are_deterministic_algorithms_enabled()


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, places, mask):
        return self.linear(x) * mask + places


def test_arguments_of_every_kind_come_from_recipes():
    given = [normal("2 4"), filled("4", 7), zeros_and_ones("2 4")]
    built = with_arguments(Mixed().eval(), given, SourceOptions(dtype="float32", seed=5))
    x, places, mask = built.args
    assert x.shape == (2, 4) and x.std() > 0.2
    assert places.dtype == torch.int64 and (places == 7).all()
    assert set(mask.flatten().tolist()) <= {0.0, 1.0}
    again = with_arguments(Mixed().eval(), given, SourceOptions(dtype="float32", seed=5))
    assert all(torch.equal(one, other) for one, other in zip(built.args, again.args, strict=True))
    assert all(built.registry.knows(one.numpy()) for one in built.args)
