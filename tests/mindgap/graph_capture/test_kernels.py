"""What a kernels-level capture promises: gradients and steps of portable operators, proven, replayed from recipes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aten.differing_outputs import differing_outputs
from mindgap.aten.functional import functionalize
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import cotangent, to_torch
from mindgap.graph import Constant, Graph, Normal, Uniform, decode, encode
from mindgap.graph.materialisation import materialise_all
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture, capture_kernels, with_explicit_gradients
from mindgap.sources.libraries import declare_operators

X = torch.arange(32.0).reshape(4, 8) / 8 - 1.5
COUNT = itertools.count(1)
DEVICE_BOUND = ("mkldnn", "_for_cpu", "cudnn", "flash_attention", "efficient_attention", "_for_mps")


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def values(graph: Graph, store: TensorStore) -> list[torch.Tensor]:
    return [to_torch(a, i.spec) for a, i in zip(materialise_all(graph, store), graph.inputs, strict=True)]


def replay(graph: Graph, store: TensorStore) -> dict[str, torch.Tensor]:
    """The outputs by label, run from nothing but the graph's recipes."""
    return dict(zip(graph.labels.outputs, Tape(graph).run(values(graph, store)), strict=True))


def given(graph: Graph, store: TensorStore) -> dict[str, torch.Tensor]:
    return dict(zip(graph.labels.inputs, values(graph, store), strict=True))


def test_forward_is_what_a_backend_is_handed(store: TensorStore) -> None:
    graph = capture_kernels(nn.Sequential(nn.Linear(8, 4), nn.Softmax(-1)), (X,), tensors=store)
    assert ops(graph) == ["aten.t.default", "aten.addmm.default", "aten._softmax.default"]
    assert graph.labels.outputs == ("output",)


@pytest.mark.parametrize("train", [False, True])
def test_a_batch_norm_of_transposed_rows_has_the_strides_that_its_kernel_gives(store: TensorStore, train: bool) -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.linear(x).transpose(1, 2)).transpose(1, 2).sin()

    graph = capture_kernels(Rows().train(train), (X.reshape(1, 4, 8),), tensors=store, backward=True)
    norms = [node for node in graph.nodes if "batch_norm" in node.op]
    assert len(norms) == 2 and all(node.outputs[0] and node.outputs[0].stride == (32, 4, 1) for node in norms)


def test_gradients_are_those_of_the_loss_by_autograd(store: TensorStore) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.LogSoftmax(-1))
    graph = capture_kernels(model, (X,), tensors=store, backward=True)
    found = replay(graph, store)
    x = X.clone().requires_grad_()
    output = model(x)
    loss = (output * given(graph, store)["loss.weight.0.output"]).sum()
    loss.backward()
    assert torch.equal(found["loss"], loss.detach()) and torch.equal(found["output"], output.detach())
    assert x.grad is not None and torch.equal(found["grad:input"], x.grad)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.equal(found[f"grad:{name}"], parameter.grad), name
    assert set(found) == {"output", "loss", "grad:input", *(f"grad:{n}" for n, _ in model.named_parameters())}


def test_the_loss_is_no_sum_of_ones_whose_gradient_a_softmax_would_cancel(store: TensorStore) -> None:
    graph = capture_kernels(nn.Softmax(-1), (X,), tensors=store, backward=True)
    weight = graph.inputs[graph.labels.inputs.index("loss.weight.0.output")]
    assert isinstance(weight.recipe, Uniform) and (weight.recipe.low, weight.recipe.high) == (-1.0, 1.0)
    assert float(replay(graph, store)["grad:input"].abs().max()) > 1e-3


def test_sgd_steps_from_a_seeded_momentum(store: TensorStore) -> None:
    model = nn.Linear(8, 4)
    graph = capture_kernels(model, (X,), tensors=store, optimizer="sgd")
    found, state = replay(graph, store), given(graph, store)
    momentum = state["state.weight.momentum_buffer"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, foreach=False)
    for name, parameter in model.named_parameters():
        parameter.grad = found[f"grad:{name}"].clone()
        optimizer.state[parameter]["momentum_buffer"] = state[f"state.{name}.momentum_buffer"].clone()
    optimizer.step()
    assert torch.equal(found["weight"], model.weight.detach())
    assert torch.equal(found["state.weight.momentum_buffer"], optimizer.state[model.weight]["momentum_buffer"])
    assert not torch.equal(found["state.weight.momentum_buffer"], momentum)


def test_adamw_steps_from_seeded_moments_and_a_count(store: TensorStore) -> None:
    model = nn.Linear(8, 4)
    before = model.weight.detach().clone()
    graph = capture_kernels(model, (X,), tensors=store, optimizer="adamw")
    found, state = replay(graph, store), given(graph, store)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for name, parameter in model.named_parameters():
        parameter.grad = found[f"grad:{name}"].clone()
        optimizer.state[parameter].update(
            {key: state[f"state.{name}.{key}"].clone() for key in ("step", "exp_avg", "exp_avg_sq")}
        )
    optimizer.step()
    assert torch.equal(found["weight"], model.weight.detach()) and not torch.equal(before, model.weight)
    for key, value in optimizer.state[model.weight].items():
        assert torch.equal(found[f"state.weight.{key}"], value), key
    assert float(found["state.weight.step"]) == 2.0
    kinds = {n.rpartition(".")[2]: type(i.recipe) for n, i in zip(graph.labels.inputs, graph.inputs, strict=True)}
    assert (kinds["step"], kinds["exp_avg"], kinds["exp_avg_sq"]) == (Constant, Normal, Uniform)


def test_the_program_is_left_as_it_was(store: TensorStore) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    capture_kernels(model, (X,), tensors=store, optimizer="adamw")
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in model.parameters()) and not X.requires_grad


def test_another_optimiser_is_made_by_a_function_and_its_state_is_an_output(store: TensorStore) -> None:
    model = nn.Linear(8, 4)
    graph = capture_kernels(
        model, (X,), tensors=store, optimizer=lambda p: torch.optim.Adagrad(p, lr=0.1, foreach=True)
    )
    assert any("_foreach_" in op for op in ops(graph))
    found = replay(graph, store)
    assert torch.equal(found["state.weight.sum"], found["grad:weight"] ** 2)


def test_training_statistics_are_written_and_compared(store: TensorStore) -> None:
    graph = capture_kernels(nn.BatchNorm1d(8).train(), (X,), tensors=store, backward=True)
    assert "aten._native_batch_norm_legit.default" in ops(graph) and "aten.native_batch_norm.default" not in ops(graph)
    assert {"running_mean", "running_var", "num_batches_tracked"} <= set(graph.labels.outputs)
    found = replay(graph, store)
    assert torch.allclose(found["running_mean"], X.mean(0) * 0.1)
    assert not any(op.startswith("aten.empty") for op in ops(graph))


def test_dropout_is_drawn_once_and_goes_through_the_backward_pass(store: TensorStore) -> None:
    graph = capture_kernels(nn.Dropout(0.5).train(), (X,), tensors=store, backward=True)
    assert [i.role for i in graph.inputs].count("random") == 1
    found = replay(graph, store)
    assert torch.equal(found["grad:input"] == 0, found["output"] == 0)


class Device(nn.Module):
    """What PyTorch would give to oneDNN and to the fused attention of one device."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True, dropout=0.2, num_layers=2)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.conv = nn.Conv1d(4, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.encoder(self.lstm(x)[0])
        return self.conv(F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0])


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_no_operator_of_one_device(train: bool, backward: bool, store: TensorStore) -> None:
    graph = capture_kernels(Device().train(train), (torch.randn(2, 4, 8),), tensors=store, backward=backward)
    assert not any(word in op for op in ops(graph) for word in DEVICE_BOUND)


def test_a_device_bound_operator_is_refused_by_name(store: TensorStore) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)[0]

    with pytest.raises(CaptureError, match=r"_scaled_dot_product_flash_attention_for_cpu.*one device only"):
        capture_kernels(program, (torch.randn(1, 2, 4, 8),), tensors=store)


def test_a_functional_form_with_the_same_bits_and_a_way_to_a_file_and_back(store: TensorStore) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(24, 3))
    graph = capture_kernels(
        model.train(), (X.reshape(2, 1, 2, 8).repeat(1, 1, 2, 1),), tensors=store, optimizer="adamw"
    )
    assert decode(encode(graph)) == graph
    assert differing_outputs(graph, functionalize(graph).graph, values(graph, store)) == []


def test_regions_without_gradients_and_tied_weights_are_as_in_the_program(store: TensorStore) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 8)
            self.frozen = nn.Linear(8, 8).requires_grad_(False)
            self.out = nn.Linear(8, 10, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            hidden = self.embed(ids)
            with torch.no_grad():
                scale = hidden.square().mean()
            return self.out(self.frozen(hidden) * scale)

    graph = capture_kernels(Tied(), (torch.arange(6) % 4,), tensors=store, backward=True)
    assert [n for n in graph.labels.outputs if n.startswith("grad:")] == ["grad:embed.weight"]
    assert "aten.embedding_dense_backward.default" in ops(graph) and "aten.pow_backward" not in ops(graph)


def test_an_argument_that_is_written_to_has_no_gradient(store: TensorStore) -> None:
    layer = nn.Linear(8, 4)
    graph = capture_kernels(lambda x: layer(x.mul_(2)), (X.clone(),), tensors=store, backward=True)
    assert [n for n in graph.labels.outputs if n.startswith("grad:")] == ["grad:layer.weight", "grad:layer.bias"]
    assert "x" in graph.labels.outputs


def test_gradients_inside_a_program_are_calls_like_others(store: TensorStore) -> None:
    layer = nn.Linear(8, 1)

    def force(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(layer(x).tanh().sum(), x, create_graph=True)[0]

    graph = capture_kernels(force, (X,), tensors=store, backward=True)
    assert "grad:layer.weight" in graph.labels.outputs and "aten.tanh_backward.default" in ops(graph)


def reads(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()  # here


@pytest.mark.parametrize(("program", "options", "said"), [
    (lambda x: x.argmax(-1), {"backward": True}, "no output of the program has a gradient"),
    (lambda x: x * 2, {"optimizer": "sgd"}, "no parameter has a gradient"),
    (lambda x: x * 2, {"optimizer": "lion"}, "optimizer 'lion': sgd, adamw"),
    (reads, {"backward": True}, "reads a value computed from its arguments"),
])  # fmt: skip
def test_refusals(program: Any, options: dict[str, Any], said: str, store: TensorStore) -> None:
    with pytest.raises(CaptureError, match=said):
        capture_kernels(program, (X,), tensors=store, **options)


def test_python_state_that_changes_between_runs_is_no_proof(store: TensorStore) -> None:
    with pytest.raises(CaptureError, match="replays differently"):
        capture_kernels(lambda x: x * float(next(COUNT)), (X,), tensors=store, backward=True)


def test_the_entrance_above_delegates_and_asks_for_gradients_of_calls(store: TensorStore) -> None:
    model = nn.Linear(8, 4)
    below = capture(model, (X,), tensors=store, backward=True)
    assert below == capture_kernels(model, (X,), tensors=store, backward=True)
    every = capture(model, (X,), tensors=store, grad=True)
    assert ops(every) == ["aten.linear.default"]
    assert [every.labels.inputs[i] for i in every.grad] == ["input", "weight", "bias"]
    one = capture(model, (X,), tensors=store, grad=["bias"])
    assert [one.labels.inputs[i] for i in one.grad] == ["bias"]
    with pytest.raises(CaptureError, match="grad names 'bios'"):
        capture(model, (X,), tensors=store, grad=["bios"])


def test_seeded_weights_and_bfloat16(store: TensorStore) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16)).bfloat16()
    graph = capture_kernels(model, (X.bfloat16(),), weights="seeded", backward=True)
    found = replay(graph, store)
    assert found["grad:0.weight"].dtype == torch.bfloat16 and float(found["grad:0.weight"].abs().max()) > 0


def test_a_gradient_is_labelled_by_the_forward_call_that_it_belongs_to(store: TensorStore) -> None:
    model = nn.Sequential(nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.GELU(), nn.LayerNorm(6))
    graph = capture_kernels(model.train(), (X.reshape(1, 4, 8),), tensors=store, optimizer="sgd")
    labels = dict(zip(ops(graph), graph.labels.nodes, strict=True))
    assert labels["aten.native_layer_norm_backward.default"] == "backward of 3"
    assert labels["aten.gelu_backward.default"] == "backward of 2"
    assert labels["aten.native_batch_norm_backward.default"] == "backward of 1"
    assert labels["aten.convolution_backward.default"] == "backward of 0"
    assert labels["aten.mul_.Tensor"] == "the training step" and all(graph.labels.nodes)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["mobilenetv3_small_100", "swin_tiny_patch4_window7_224"])
def test_a_training_step_of_a_real_vision_model(name: str, store: TensorStore) -> None:
    declare_operators()  # the CPU build of torchvision does not import without
    timm = pytest.importorskip("timm")
    small = {"depths": (1, 1), "num_heads": (2, 2), "embed_dim": 16, "img_size": 56} if "swin" in name else {}
    model = timm.create_model(name, num_classes=10, drop_rate=0.2, **small).train()
    graph = capture_kernels(model, (torch.randn(2, 3, 56, 56),), weights="seeded", optimizer="adamw")
    trained = [n for n, p in model.named_parameters() if p.requires_grad]
    assert {f"grad:{n}" for n in trained} <= set(graph.labels.outputs) and set(trained) <= set(graph.labels.outputs)
    assert not any(word in op for op in ops(graph) for word in DEVICE_BOUND)


def test_a_training_step_of_a_real_language_model(store: TensorStore) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=100, bos_token_id=1, eos_token_id=2)
    ids = torch.arange(24).reshape(2, 12) * 37 % 97
    inputs = {"input_ids": ids, "labels": ids}
    graph = capture_kernels(
        transformers.GPT2LMHeadModel(config).train(), (), inputs, tensors=store, optimizer="adamw", name="gpt2"
    )
    assert {"aten.nll_loss_backward.default", "aten.embedding_dense_backward.default", "aten.addcdiv_.default"} <= set(
        ops(graph)
    )
    assert "gpt2.transformer.wte.weight" in graph.labels.outputs
    assert sum(i.role == "random" for i in graph.inputs) == 7  # a mask for each of its dropouts


@pytest.mark.parametrize("options", [{"backward": True}, {}])
def test_dtypes_are_those_of_the_kernels_where_fake_ones_say_otherwise(
    options: dict[str, Any], store: TensorStore
) -> None:
    model = nn.Sequential(nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4)).bfloat16().train()
    graph = capture(model, (X.bfloat16().reshape(1, 4, 8),), tensors=store, **options)
    given: list[list[torch.Tensor | None]] = []
    Tape(graph).run(values(graph, store), on_node=lambda _, flat: given.append(list(flat)))
    for node, flat in zip(graph.nodes, given, strict=True):
        for spec, real in zip(node.outputs, flat, strict=True):
            assert spec is None or real is None or f"torch.{spec.dtype}" == str(real.dtype), node.op


def test_gradients_that_autograd_would_take_are_written_out_with_the_same_bits(store: TensorStore) -> None:
    model = nn.Sequential(
        nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(24, 3),
        nn.LogSoftmax(-1),
    )  # fmt: skip
    asked = capture(model.train(), (X.reshape(1, 4, 8),), tensors=store, grad=True)
    explicit = with_explicit_gradients(asked)
    assert explicit.grad == () and "aten.convolution_backward.default" in ops(explicit)
    assert explicit.inputs[: len(asked.inputs)] == asked.inputs
    leaves = values(asked, store)
    for index in asked.grad:
        leaves[index].requires_grad_()
    outputs = Tape(asked).run(leaves)
    roots = [o for o in outputs if o.requires_grad]
    taken = torch.autograd.grad(roots, [leaves[i] for i in asked.grad], [cotangent(r) for r in roots])
    written = Tape(explicit).run(values(explicit, store))
    assert all(torch.equal(a, b) for a, b in zip([*outputs, *taken], written, strict=True))
    assert explicit.labels.outputs[len(outputs) :] == tuple(f"grad:{asked.labels.inputs[i]}" for i in asked.grad)
    assert with_explicit_gradients(explicit) is explicit


def test_the_functional_form_of_narrow_statistics_declares_what_its_kernel_gives(store: TensorStore) -> None:
    model = nn.BatchNorm1d(4).bfloat16().train()
    graph = capture_kernels(model, (X.bfloat16().reshape(1, 4, 8),), tensors=store, backward=True)
    functional = functionalize(graph).graph
    given: list[list[torch.Tensor | None]] = []
    Tape(functional).run(values(graph, store), on_node=lambda _, flat: given.append(list(flat)))
    assert "aten._native_batch_norm_legit_functional.default" in ops(functional)
    for node, flat in zip(functional.nodes, given, strict=True):
        for spec, real in zip(node.outputs, flat, strict=True):
            assert spec is None or real is None or f"torch.{spec.dtype}" == str(real.dtype), node.op
