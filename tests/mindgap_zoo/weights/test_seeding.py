"""Seeded weights: nothing stays degenerate, everything comes from a recipe, scales are sane."""

import numpy as np
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from mindgap.graph import Literal, PendingTensors, Stored, TensorStore, Uniform, materialise_all, tensor_key
from mindgap.graph_capture import capture
from mindgap.sources.opening import capture_built
from mindgap.sources.program import Built
from mindgap.sources.weights.tensor_registry import MemoryStore, TensorRegistry
from mindgap_zoo.weights.seeding import seed_statistics, seed_weights, weight_recipe


class Degenerate(nn.Module):
    """What zoos start from: a zero last gamma, a tiny layer scale, a zero head, untouched statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.last = nn.BatchNorm2d(8)
        self.scale = nn.Parameter(torch.full((8, 1, 1), 1e-6))
        self.alpha = nn.Parameter(torch.zeros(()))
        self.head = nn.Linear(8, 5)
        self.register_buffer("table", torch.arange(400.0))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        y = self.bn(self.conv(x) * 1000)
        y = y + self.last(y) * self.scale + self.alpha
        return self.head(y.mean((2, 3))) + self.table.sum() * 0


def torch_seed(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Degenerate().eval()
        # Its scale decides the statistics: of another picture they may be other powers of two.
        x = torch.rand(1, 3, 16, 16)
    registry = TensorRegistry()
    seed_weights(model, seed, registry)
    seed_statistics(model, lambda: model(x), seed, registry)
    return model, registry, x


def test_nothing_is_constant_any_more_and_the_output_says_something():
    model, _, x = torch_seed()
    for name, weight in model.named_parameters():
        assert weight.numel() == 1 or weight.std() > 0, name
    assert model.alpha.item() != 0
    assert model.scale.min() >= 0.2 and model.scale.max() <= 0.6
    with torch.no_grad():
        output = model(x)
        other = model(x + torch.rand_like(x))
    assert torch.isfinite(output).all() and output.std() > 1e-3
    assert not torch.allclose(output, other, rtol=1e-2)


def test_statistics_follow_what_flows_through():
    model, _, _ = torch_seed()
    scale = model.bn.running_var.mean().item()
    assert scale > 100, "the activations were multiplied by 1000"
    assert not model.bn.training and model.bn.momentum == 0.1


def test_after_forty_batch_norms_the_picture_is_still_seen():
    layers = [part for _ in range(40) for part in (nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())]
    model = nn.Sequential(nn.Conv2d(3, 16, 3), *layers).eval()
    registry = TensorRegistry()
    seed_weights(model, 0, registry)
    seed_statistics(model, lambda: model(torch.randn(1, 3, 12, 12)), 0, registry)
    with torch.no_grad():
        one, other = model(torch.randn(1, 3, 12, 12)), model(torch.randn(1, 3, 12, 12))
    assert 0.1 < one.std() < 10
    assert (one - other).std() > 0.01 * one.std()


def test_a_batch_norm_that_is_not_reached_and_one_on_a_single_value_are_set():
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.BatchNorm1d(6), nn.BatchNorm1d(6)

        def forward(self, x):
            return self.used(x)

    model = Odd()
    model.used.eval()
    seed_statistics(model, lambda: model(torch.full((1, 6), 64.0)), 0, TensorRegistry())
    assert 2000 < model.used.running_var.mean() < 6200
    assert model.unused.running_var.min() >= 0.5 and model.unused.running_mean.abs().max() <= 0.25
    assert model.training and model.unused.training and not model.used.training


def test_the_same_seed_gives_the_same_bits():
    first, second, third = (torch_seed(seed)[0].state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["conv.weight"], third["conv.weight"])


def test_a_captured_graph_holds_recipes_that_give_the_very_weights():
    model, registry, x = torch_seed()
    kept = MemoryStore()
    graph = registry.restore(capture(model, (x,), tensors=kept), kept, None)
    arrays = dict(zip(graph.labels.inputs, materialise_all(graph, kept), strict=True))
    recipes = dict(zip(graph.labels.inputs, graph.inputs, strict=True))
    for name, weight in model.named_parameters():
        assert np.array_equal(arrays[name], weight.detach().numpy()), name
        assert not isinstance(recipes[name].recipe, (Stored, Literal)), name
    assert isinstance(recipes["table"].recipe, Literal)
    assert np.array_equal(arrays["table"], np.arange(400, dtype=np.float32))


def test_a_large_constant_is_referred_to_by_the_key_that_its_file_gets(tmp_path):
    """What was not drawn and is too large for a graph's bytes: 1.1 MiB of an architecture's own table."""
    model, registry, x = torch_seed()
    model.register_buffer("table", torch.arange(1.0, 300_001.0))
    tensors = PendingTensors(TensorStore(tmp_path))
    graph = capture_built(Built(model, (x,), {}, registry), tensors)
    (key,) = (given.recipe.key for given in graph.inputs if isinstance(given.recipe, Stored))
    assert key == tensor_key(np.arange(1, 300_001, dtype=np.float32)) and not list(tmp_path.iterdir())
    tensors.keep([key])
    assert np.array_equal(TensorStore(tmp_path).get(key), model.table.numpy())


def test_shared_weights_stay_shared():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    seed_weights(model, 0, TensorRegistry())
    assert model[1].weight is model[0].weight


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(1e-5, 10), st.floats(-2, 2))
def test_redrawn_vectors_keep_range_and_scale(seed, std, mean):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(64, generator=generator) * std + mean
    recipe = weight_recipe(weight, "weight", nn.LayerNorm(64), seed)
    if isinstance(recipe, Uniform):
        slack = 0.06 * max(abs(float(weight.min())), abs(float(weight.max())))
        assert weight.min() - slack <= recipe.low < recipe.high <= weight.max() + slack


def test_weights_that_are_not_finite_are_left_alone():
    assert weight_recipe(torch.tensor([1.0, float("inf")]), "weight", nn.LayerNorm(2), 0) is None
