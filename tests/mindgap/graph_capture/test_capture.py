"""What a capture promises: the program's calls, its inputs by role, its outputs, and bits that replay."""

from __future__ import annotations

import functools
import random
import warnings
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_torch
from mindgap.graph import Constant, Device, DType, Graph, Integers, Literal, Normal, Permutation, Stored, Uniform
from mindgap.graph.materialisation import materialise_all
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture
from mindgap.graph_capture.program_capture import UnprovenCapture


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def roles(graph: Graph) -> list[str]:
    return [given.role for given in graph.inputs]


def replay(graph: Graph, store: TensorStore) -> list[torch.Tensor]:
    """The graph, run from nothing but its recipes."""
    arrays = materialise_all(graph, store)
    return Tape(graph).run([to_torch(a, i.spec) for a, i in zip(arrays, graph.inputs, strict=True)])


X = torch.arange(32.0).reshape(4, 8) / 8 - 1.5


def test_a_program_of_another_default_dtype_keeps_it_on_workers(store: TensorStore) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        graph = capture(lambda x: x * torch.linspace(0, 1, 8), (X.double(),), tensors=store)
        named = capture(lambda x: torch.softmax(x.int().double(), 0, torch.float64) + x, (X.double(),), tensors=store)
        with pytest.raises(CaptureError, match=r"aten.mul.Tensor of other dtypes gives the default one: use .to\("):
            capture(lambda x: x * 0.5, (X.long(),), tensors=store)
    finally:
        torch.set_default_dtype(torch.float32)
    assert dict(graph.nodes[0].kwargs)["dtype"] == DType("float64")
    assert all("dtype" not in dict(node.kwargs) for node in named.nodes), "it is an argument by position"
    assert torch.equal(replay(graph, store)[0], X.double() * torch.linspace(0, 1, 8, dtype=torch.float64))


def test_a_module_is_inputs_then_parameters_then_buffers_and_replays_from_its_recipes(store: TensorStore) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True)).eval()
    graph = capture(model, (X,), tensors=store)
    assert ops(graph) == ["aten.linear.default", "aten.batch_norm.default", "aten.relu_.default"]
    assert graph.labels.inputs == (
        "input", "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
    )  # fmt: skip
    assert roles(graph) == ["input", *["parameter"] * 4, *["buffer"] * 2]
    assert graph.labels.nodes == ("0", "1", "2")
    with torch.no_grad():
        assert torch.equal(replay(graph, store)[0], model(X))


def test_big_tensors_are_stored_and_small_ones_travel_inside(store: TensorStore) -> None:
    graph = capture(nn.Linear(8, 16), (X,), tensors=store)
    by_name = dict(zip(graph.labels.inputs, graph.inputs, strict=True))
    assert isinstance(by_name["weight"].recipe, Stored)
    assert isinstance(by_name["bias"].recipe, Literal)


def test_seeded_weights_are_like_the_real_ones_and_hold_none_of_their_bytes() -> None:
    model = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64)).eval()
    with torch.no_grad():
        model[1].running_var.uniform_(0.5, 2.0)
    graph = capture(model, (X,), weights="seeded")
    by_name = dict(zip(graph.labels.inputs, graph.inputs, strict=True))
    weight = by_name["0.weight"].recipe
    assert isinstance(weight, Normal)
    assert weight.std == pytest.approx(float(model[0].weight.std()), rel=1e-6)
    variance = by_name["1.running_var"].recipe
    assert isinstance(variance, Uniform) and variance.low >= 0.5 and variance.high <= 2.0
    assert by_name["1.weight"].recipe == Constant(1.0)
    assert not any(isinstance(i.recipe, Stored) for i in graph.inputs)


def test_the_same_program_gives_the_same_graph(store: TensorStore) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3))
    assert capture(model, (X,), tensors=store) == capture(model, (X,), tensors=store)


def test_tied_weights_are_one_input(store: TensorStore) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
            self.out.weight = self.into.weight
            self.third = nn.Linear(8, 8, bias=False)
            self.third.weight.data = self.into.weight.data  # another object, the same memory

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.third(self.out(self.into(x)))

    graph = capture(Tied(), (X,), tensors=store)
    assert roles(graph) == ["input", "parameter"]


def test_training_batch_norm_declares_its_statistics_as_outputs(store: TensorStore) -> None:
    model = nn.BatchNorm1d(8)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    graph = capture(model, (X,), tensors=store)
    assert graph.labels.outputs == ("output", "running_mean", "running_var", "num_batches_tracked")
    found = replay(graph, store)
    twin = nn.BatchNorm1d(8)
    assert torch.equal(found[0], twin(X).detach())
    assert torch.equal(found[1], twin.running_mean) and torch.equal(found[2], twin.running_var)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items()), "the module was changed"


def test_momentum_none_bakes_the_count_that_only_a_buffer_decides(store: TensorStore) -> None:
    graph = capture(nn.BatchNorm1d(8, momentum=None), (X,), tensors=store)
    assert graph.labels.outputs[1:] == ("running_mean", "running_var", "num_batches_tracked")


def test_instance_norm_with_running_statistics(store: TensorStore) -> None:
    graph = capture(nn.InstanceNorm1d(4, track_running_stats=True), (X[None],), tensors=store)
    assert "running_mean" in graph.labels.outputs


def test_views_and_in_place_calls_stay_as_they_ran(store: TensorStore) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, 1:3].mul_(2)
        y.t()[0].fill_(7)
        return y.view(-1)

    graph = capture(program, (X,), tensors=store)
    assert ops(graph) == [
        "aten.clone.default", "aten.slice.Tensor", "aten.mul_.Tensor", "aten.t.default", "aten.select.int",
        "aten.fill_.Scalar", "aten.view.default",
    ]  # fmt: skip
    assert torch.equal(replay(graph, store)[0], program(X))


def test_a_written_argument_is_an_output_and_stays_as_it_was(store: TensorStore) -> None:
    x = X.clone()
    graph = capture(lambda x: x.mul_(2).sum(), (x,), tensors=store)
    assert torch.equal(x, X)
    assert graph.outputs[1:] == (0,) and graph.labels.outputs == ("output", "x")
    assert torch.equal(replay(graph, store)[1], X * 2)


def test_a_cache_kept_in_a_buffer_is_an_output(store: TensorStore) -> None:
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.cache[1:3].copy_(x[:2])
            return self.cache.sum()

    model = Cache()
    graph = capture(model, (X,), tensors=store)
    assert graph.labels.outputs == ("output", "cache")
    assert not model.cache.any()
    assert torch.equal(replay(graph, store)[1][1:3], X[:2])


def test_writes_through_data_are_seen(store: TensorStore) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.data.mul_(2)
        return x + 1

    graph = capture(program, (X,), tensors=store)
    assert torch.equal(replay(graph, store)[0], X * 2 + 1)
    assert graph.labels.outputs == ("output", "x")


def test_outputs_of_every_shape_of_container(store: TensorStore) -> None:
    Pair = namedtuple("Pair", "left right")

    @dataclass
    class Out:
        logits: torch.Tensor
        hidden: Any = None

    def program(x: torch.Tensor) -> Any:
        return {"a": x + 1, "b": [x + 2, None, 3]}, Out(x + 3, (x + 4,)), Pair(x + 5, "text"), x

    graph = capture(program, (X,), tensors=store)
    assert graph.labels.outputs == ("0.a", "0.b.0", "1.logits", "1.hidden.0", "2.left", "3")
    assert graph.outputs[-1] == 0
    assert [float(t[0, 0]) for t in replay(graph, store)] == [-0.5, 0.5, 1.5, 2.5, 3.5, -1.5]


def test_arguments_that_are_no_tensors_are_baked(store: TensorStore) -> None:
    def program(x: torch.Tensor, k: int, mode: str, flag: bool, extra: Any, *, scale: float) -> torch.Tensor:
        y = x[:k] * scale if mode == "scale" else x
        return y + extra["shift"] if flag else y

    graph = capture(program, (X, 2, "scale", True, {"shift": X[0], "none": None}), {"scale": 0.5}, tensors=store)
    assert graph.labels.inputs == ("x", "extra.shift")
    assert torch.equal(replay(graph, store)[0], X[:2] * 0.5 + X[0])


def test_keyword_arguments_and_unused_ones(store: TensorStore) -> None:
    graph = capture(lambda x, *, y, unused: x + y, (X,), {"y": X, "unused": X + 1}, tensors=store)
    assert graph.labels.inputs == ("x", "unused") or graph.labels.inputs == ("x", "y", "unused")
    assert all(role == "input" for role in roles(graph))


@pytest.mark.parametrize("make", [
    lambda m: m, lambda m: m.forward, lambda m: lambda x: m(x), lambda m: functools.partial(m),
    lambda m: functools.partial(lambda scale, x: m(x) * scale, 1.0),
])  # fmt: skip
def test_any_callable(make: Any, store: TensorStore) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    graph = capture(make(model), (X,), tensors=store)
    assert roles(graph)[:3] == ["input", "parameter", "parameter"]
    assert graph.labels.inputs[1].endswith("0.weight")
    assert torch.equal(replay(graph, store)[0], model(X).detach())


def test_expanded_and_strided_arguments_keep_their_strides(store: TensorStore) -> None:
    wide, turned = torch.arange(8.0).expand(4, 8), X.clone().t()
    graph = capture(lambda a, b: a + b.t(), (wide, turned), tensors=store)
    assert [i.spec.stride for i in graph.inputs] == [(0, 1), (1, 8)]
    assert torch.equal(replay(graph, store)[0], wide + X)


@pytest.mark.parametrize("dtype", [
    torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.uint8, torch.bool, torch.complex64,
])  # fmt: skip
def test_dtypes(dtype: torch.dtype, store: TensorStore) -> None:
    x = (X * 3).to(dtype)
    graph = capture(lambda x: (x.clone(), x.to(torch.complex64), x[0] == x[1]), (x,), tensors=store)
    assert graph.inputs[0].spec.dtype == str(dtype).removeprefix("torch.")
    assert torch.equal(replay(graph, store)[0], x)


def test_operators_with_several_results_have_a_slot_each(store: TensorStore) -> None:
    graph = capture(lambda x: (x.topk(2)[1], x.chunk(2, 1)[1], torch.aminmax(x)), (X,), tensors=store)
    assert [len(node.outputs) for node in graph.nodes] == [2, 2, 2]
    assert graph.outputs == (2, 4, 5, 6)


def test_device_and_dtype_arguments_name_no_device(store: TensorStore) -> None:
    graph = capture(lambda x: x + torch.arange(8, dtype=torch.float32, device=x.device), (X,), tensors=store)
    assert dict(graph.nodes[0].kwargs) == {"dtype": DType("float32"), "device": Device()}


def test_constants_of_the_program_are_inputs(store: TensorStore) -> None:
    table = torch.arange(8.0)
    graph = capture(lambda x: x * table + torch.tensor([2.0]) + torch.from_numpy(np.ones(8, np.float32)), (X,),
                    tensors=store)  # fmt: skip
    assert roles(graph) == ["input", "constant", "constant", "constant"]
    assert torch.equal(replay(graph, store)[0], X * table + 2.0 + 1)


def test_scalars_and_sizes_that_constants_decide_are_baked(store: TensorStore) -> None:
    mask = torch.tensor([True, False] * 4)

    def program(x: torch.Tensor) -> torch.Tensor:
        factor = torch.tensor([1.0, 2.0]).sum().item()
        return (x * factor)[:, mask] + torch.nonzero(mask).shape[0]

    graph = capture(program, (X,), tensors=store)
    assert torch.equal(replay(graph, store)[0], program(X))


def test_autocast_is_resolved_into_casts(store: TensorStore) -> None:
    layer = nn.Linear(8, 8)

    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = F.gelu(layer(x))
            with torch.autocast("cpu", enabled=False):
                y = y.float() @ x.t()
            return F.scaled_dot_product_attention(y[None], y[None], y[None])

    graph = capture(program, (X,), tensors=store)
    assert not any("autocast" in op for op in ops(graph))
    linear = graph.nodes[ops(graph).index("aten.linear.default")]
    assert [o and o.dtype for o in linear.outputs] == ["bfloat16"]
    with torch.no_grad():
        assert torch.equal(replay(graph, store)[0], program(X))


def test_capture_inside_autocast_and_grad_regions_is_of_the_program_alone(store: TensorStore) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        graph = capture(nn.Linear(8, 8), (X,), tensors=store)
    assert graph.nodes[0].outputs[0] and graph.nodes[0].outputs[0].dtype == "float32"

    def regions(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
        with torch.inference_mode():
            z = y + 1
        return y + z

    assert ops(capture(regions, (X,), tensors=store)) == ["aten.mul.Tensor", "aten.add.Tensor", "aten.add.Tensor"]


def test_what_was_compiled_is_captured_as_it_was_before(store: TensorStore) -> None:
    layer = nn.Linear(8, 8)
    plain = capture(layer, (X,), tensors=store)
    assert capture(torch.compile(layer), (X,), tensors=store) == plain
    assert ops(capture(torch.compile(lambda x: x + 1), (X,), tensors=store)) == ["aten.add.Tensor"]


def test_lengths_of_a_loss_are_constants(store: TensorStore) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(x.log_softmax(-1)[:, None], torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))

    assert torch.equal(replay(capture(program, (X,), tensors=store), store)[0], program(X))


def test_statistics_kept_by_older_parametrizations(store: TensorStore) -> None:
    graph = capture(nn.utils.spectral_norm(nn.Linear(8, 8)), (X,), tensors=store)
    assert graph.labels.outputs == ("output", "weight_u", "weight_v")
    assert all(graph.labels.nodes)
    assert "aten._weight_norm.default" in ops(
        capture(nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), (X,), tensors=store)
    )


def test_numbers_beside_vmapped_tensors_are_operands(store: TensorStore) -> None:
    def banded(x: torch.Tensor) -> torch.Tensor:
        rows, columns = torch.arange(x.shape[0]), torch.arange(x.shape[1])
        band = torch.vmap(torch.vmap(lambda row, column: column > row - 2, (None, 0)), (0, None))
        return x * band(rows, columns)

    graph = capture(banded, (X,), tensors=store)
    assert "aten.sub.Tensor" in ops(graph)


def test_vmap_and_grad_become_plain_calls(store: TensorStore) -> None:
    graph = capture(torch.vmap(lambda row: row.sin() * row.sum()), (X,), tensors=store)
    assert "aten.sin.default" in ops(graph)
    assert torch.allclose(replay(graph, store)[0], X.sin() * X.sum(1, keepdim=True))
    graph = capture(torch.func.grad(lambda x: (x**2).sum()), (X,), tensors=store)
    assert torch.equal(replay(graph, store)[0], 2 * X)


@pytest.mark.parametrize(("program", "recipe"), [
    (lambda x: x + torch.rand_like(x), Uniform), (lambda x: x + torch.rand(8), Uniform),
    (lambda x: x + torch.randn(4, 8), Normal), (lambda x: x + torch.randn_like(x), Normal),
    (lambda x: x + torch.normal(1.0, 2.0, (8,)), Normal), (lambda x: x + torch.randint(3, 9, (8,)), Integers),
    (lambda x: x[torch.randperm(4)], Permutation), (lambda x: torch.bernoulli(x.sigmoid()), Uniform),
    (lambda x: torch.multinomial(x.softmax(-1), 3), Uniform), (lambda x: x.exponential_(2.0), Uniform),
    (lambda x: torch.multinomial(x.softmax(-1), 30, replacement=True), Uniform),
    (lambda x: x.clone().uniform_(2, 3), Uniform), (lambda x: x.clone().normal_(2, 3), Normal),
    (lambda x: F.dropout(x, 0.4), Uniform), (lambda x: F.dropout1d(x, 0.4), Uniform),
    (lambda x: F.alpha_dropout(x, 0.4, True), Uniform), (lambda x: F.rrelu(x, training=True), Uniform),
    (lambda x: F.dropout(x.clone(), 0.4, inplace=True), Uniform), (lambda x: x.clone().random_(0, 5), Integers),
    (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5), Uniform),
    (lambda x: F.gumbel_softmax(x), Uniform),
])  # fmt: skip
def test_random_calls_become_drawn_inputs(program: Any, recipe: type, store: TensorStore) -> None:
    state = torch.get_rng_state()
    graph = capture(program, (X,), tensors=store)
    drawn = [i.recipe for i in graph.inputs if i.role == "random"]
    assert drawn and all(isinstance(r, recipe) for r in drawn)
    assert torch.equal(state, torch.get_rng_state())
    first, second = replay(graph, store), replay(graph, store)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    seeded = torch.Tag.nondeterministic_seeded
    assert not any(n.op.split(".")[1] in ("dropout", "bernoulli", "rand", "randn", "multinomial") for n in graph.nodes)
    assert seeded in torch.ops.aten.dropout.default.tags


def test_a_random_composite_is_named_in_the_label(store: TensorStore) -> None:
    graph = capture(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), (X,), tensors=store)
    assert "1 in aten.dropout.default" in graph.labels.nodes


def test_drawn_numbers_have_their_distribution(store: TensorStore) -> None:
    weights = torch.tensor([0.1, 0.0, 0.6, 0.3])
    graph = capture(lambda w: torch.multinomial(w, 20000, replacement=True), (weights,), tensors=store)
    share = torch.bincount(replay(graph, store)[0], minlength=4) / 20000
    assert torch.allclose(share, weights, atol=0.02)
    graph = capture(lambda w: torch.multinomial(w.expand(20000, 4), 1), (weights,), tensors=store)
    share = torch.bincount(replay(graph, store)[0][:, 0], minlength=4) / 20000
    assert torch.allclose(share, weights, atol=0.02)
    graph = capture(lambda x: F.dropout(x, 0.25), (torch.ones(20000),), tensors=store)
    assert float((replay(graph, store)[0] == 0).float().mean()) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_stay_whole_in_evaluation_and_portable_with_dropout(kind: Any, store: TensorStore) -> None:
    whole = capture(kind(8, 6, 2).eval(), (X[None],), tensors=store)
    assert whole.nodes[-1].op.split(".")[1] in ("lstm", "gru", "rnn_tanh")
    parts = capture(kind(8, 6, 2, dropout=0.5), (X[None],), tensors=store)
    assert "random" in roles(parts) and not any("mkldnn" in op for op in ops(parts))


def test_the_fast_path_of_attention_is_off(store: TensorStore) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    graph = capture(layer, (X[None],), tensors=store)
    assert "aten.scaled_dot_product_attention.default" in ops(graph) or "aten.softmax.int" in ops(graph)
    assert not any("_transformer_encoder" in op or "_native_multi" in op for op in ops(graph))
    assert torch.backends.mha.get_fastpath_enabled()


def test_the_program_is_left_as_it_was(store: TensorStore) -> None:
    class Stateful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls, self.last = nn.Linear(8, 8), 0, None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.last = self.layer(x)
            return F.dropout(self.last, 0.1, self.training)

    model, x = Stateful().train(), X.clone().requires_grad_()
    weight, states = model.layer.weight, (random.getstate(), torch.get_num_threads())
    capture(model, (x,), tensors=store)
    assert model.calls == 0 and model.last is None and model.training
    assert model.layer.weight is weight and weight.requires_grad and weight.grad is None
    assert x.requires_grad and x.grad is None
    assert states == (random.getstate(), torch.get_num_threads()) and torch.is_grad_enabled()


def test_a_tensor_in_a_closure_is_not_written_to(store: TensorStore) -> None:
    total = torch.zeros(4, 8)
    graph = capture(lambda x: total.add_(x).sum(), (X,), tensors=store)
    assert not total.any()
    assert graph.labels.outputs[0] == "output" and len(graph.outputs) == 2


def test_meta_modules_need_no_memory_and_say_that_they_are_unproven() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*[nn.Linear(1 << 15, 1 << 15) for _ in range(8)])  # 34 GB
    with pytest.warns(UnprovenCapture):
        graph = capture(model, (torch.zeros(1, 1 << 15, device="meta"),), weights="seeded")
    assert len(graph.nodes) == 8


def test_skipping_the_check_is_said(store: TensorStore) -> None:
    with pytest.warns(UnprovenCapture):
        capture(lambda x: x + 1, (X,), tensors=store, verify=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        capture(lambda x: x + 1, (X,), tensors=store)


def test_a_name_stands_before_the_labels_of_parameters(store: TensorStore) -> None:
    graph = capture(nn.Linear(8, 8), (X,), tensors=store, name="mlp")
    assert graph.labels.inputs == ("input", "mlp.weight", "mlp.bias")
