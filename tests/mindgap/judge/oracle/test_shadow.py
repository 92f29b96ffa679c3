"""W keeps float64 except for what casts overflow; S rounds each operator once; replays move by what bounds say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from judge.oracle.bench import build, normal
from mindgap.aten.tensors import to_numpy
from mindgap.graph import DType
from mindgap.judge.oracle import MANY, Oracle
from mindgap.judge.oracle.float_classes import FINITE, POSITIVE


def casting(values: list[float]) -> Oracle:
    """float32 → float16 → float32 → times 2."""
    array = torch.tensor(values).numpy()
    calls = [("a", "aten.to.dtype", "i0", DType("float16")), ("b", "aten.to.dtype", "a", DType("float32")),
             ("c", "aten.mul.Tensor", "b", 2.0)]  # fmt: skip
    return Oracle(build([array], calls, ["c"]), [array])


def test_wide_keeps_the_range_of_a_cast_and_not_its_rounding() -> None:
    oracle = casting([1 / 3, 70000.0, -1e6, 1.0])
    third = float(torch.tensor(1 / 3)) * 2
    wide = oracle.wide[oracle.graph.outputs[0]]
    assert wide.tolist() == [third, float("inf"), -float("inf"), 2.0]


def test_stepwise_rounds_at_the_cast() -> None:
    oracle = casting([1 / 3, 70000.0, 1.0])
    step = oracle.step.wide(oracle.graph.outputs[0])
    assert step.tolist() == [2 * float(torch.tensor(1 / 3).half()), float("inf"), 2.0]


def test_stepwise_rounds_each_result_once() -> None:
    x, y = normal(64), normal(64, seed=1)
    graph = build([x, y], [("a", "aten.mul.Tensor", "i0", "i1"), ("b", "aten.add.Tensor", "a", "i0")], ["b"])
    oracle = Oracle(graph, [x, y])
    product = (torch.from_numpy(x).double() * torch.from_numpy(y).double()).float()
    expected = (product.double() + torch.from_numpy(x).double()).float()
    assert torch.equal(oracle.step.values[graph.outputs[0]], expected)
    exact = torch.from_numpy(x).double() * torch.from_numpy(y).double() + torch.from_numpy(x).double()
    assert torch.equal(oracle.wide[graph.outputs[0]], exact)


def test_scalars_have_the_precision_of_the_kernel() -> None:
    x = normal(8)
    graph = build([x], [("a", "aten.mul.Tensor", "i0", 0.1)], ["a"])
    expected = torch.from_numpy(x).double() * float(torch.tensor(0.1))
    assert torch.equal(Oracle(graph, [x]).wide[1], expected)


def test_float64_graphs_are_held_to_float64() -> None:
    x = normal(100, dtype="float64")
    graph = build([x], [("a", "aten.sum.default", "i0"), ("b", "aten.exp.default", "i0")], ["a", "b"])
    oracle = Oracle(graph, [x])
    right = [torch.from_numpy(x).sum().numpy(), torch.from_numpy(x).exp().numpy()]
    assert [e.kind for e in oracle.examine(right)] == ["calm", "calm"]
    wrong = [right[0], (torch.from_numpy(right[1]).float().double()).numpy()]
    assert oracle.examine(wrong)[1].kind == "discrepant"


@pytest.mark.parametrize("length", [4, 64, 400])
def test_sigma_grows_with_the_root_of_independent_roundings(length: int) -> None:
    """y = x·c₁·c₂·…·c_n: each product errs by u, so σ is √n·u of the value, within sampling error."""
    x = normal(256, shift=3.0)
    factors = np.random.default_rng(0).uniform(0.99, 1.01, length).tolist()
    calls = [(f"n{k + 1}", "aten.mul.Tensor", f"n{k}" if k else "i0", c) for k, c in enumerate(factors)]
    graph = build([x], calls, [f"n{length}"])
    oracle = Oracle(graph, [x])
    oracle.replays.ensure(MANY)
    ratio = oracle.replays.sigma(graph.outputs[0]) / torch.from_numpy(x).double().abs()
    typical = float(ratio.square().mean().sqrt()) / (2**-24 * length**0.5)
    # Injected ±u lands on a neighbour or on the value itself, ties to even: between half and twice the model.
    assert 0.5 < typical < 2.0


def test_without_noise_every_bit_stays() -> None:
    x = torch.tensor([-0.0, 0.0, 1.0, float("inf"), float("nan")]).numpy()
    graph = build([x], [("a", "aten.relu.default", "i0"), ("b", "aten.neg.default", "i0")], ["a", "b"])
    oracle = Oracle(graph, [x])
    oracle.replays.ensure(MANY)
    assert oracle.replays.count == 1
    assert float(oracle.replays.sigma(graph.outputs[1]).max()) == 0.0


def test_noise_leaves_the_sign_of_zero() -> None:
    """1/(x·1): a zero whose sign was lost would give +Inf for -Inf."""
    x = torch.tensor([-0.0, 0.0, 2.0]).numpy()
    graph = build([x], [("a", "aten.mul.Tensor", "i0", 1.0), ("b", "aten.reciprocal.default", "a")], ["b"])
    oracle = Oracle(graph, [x])
    expected = oracle.expectation(graph.outputs[0], MANY)
    assert expected.classes[1] == POSITIVE and expected.classes[0] != POSITIVE and expected.classes[2] == FINITE


def test_replays_show_overflow_that_rounding_reaches() -> None:
    largest = torch.finfo(torch.float32).max
    x = torch.tensor([largest / 3, largest / 3.0001]).numpy()
    graph = build([x], [("a", "aten.mul.Tensor", "i0", 3.0), ("b", "aten.mul.Tensor", "a", 1.0)], ["b"])
    oracle = Oracle(graph, [x])
    for value in (largest, float("inf")):
        assert oracle.examine([torch.tensor([value, largest / 3.0001 * 3]).numpy()])[0].kind in ("calm", "exceptional")
    assert oracle.examine([torch.tensor([0.0, float("nan")]).numpy()])[0].kind == "exceptional"


def test_ill_conditioned_outputs_are_told() -> None:
    x = normal(64, shift=1.0)
    calls = [("s", "aten.sin.default", "i0"), ("b", "aten.mul.Tensor", "s", 1e9), ("c", "aten.sin.default", "b")]
    graph = build([x], calls, ["c"])
    oracle = Oracle(graph, [x])
    assert oracle.examine([torch.zeros(64).numpy()])[0].ill
    plain = build([x], [("s", "aten.sin.default", "i0")], ["s"])
    assert not Oracle(plain, [x]).examine([torch.from_numpy(x).sin().numpy()])[0].ill


def test_an_operator_without_any_float64_form_is_evaluated_in_its_own_dtype() -> None:
    x = normal(16)
    graph = build([x], [("a", "aten.nextafter.default", "i0", "i0"), ("b", "aten.view.dtype", "i0", DType("int32"))],
                  ["a", "b"])  # fmt: skip
    oracle = Oracle(graph, [x])
    right = [x, torch.from_numpy(x).view(torch.int32).numpy()]
    assert [e.kind for e in oracle.examine(right)] == ["calm", "calm"]
    assert oracle.examine([x, right[1] + 1])[1].kind == "discrepant"


def test_both_parts_of_a_complex_number_carry_noise() -> None:
    """Re(z·w) cancels to nothing: its error is that of the whole."""
    x, y = normal(16), normal(16, seed=1)
    calls = [("z", "aten.complex.default", "i0", "i1"), ("m", "aten.mul.Tensor", "z", "z"),
             ("r", "aten.view_as_real.default", "m")]  # fmt: skip
    graph = build([x, y], calls, ["r"])
    oracle = Oracle(graph, [x, y])
    oracle.replays.ensure(MANY)
    assert bool((oracle.replays.sigma(graph.outputs[0]) > 0).all())


def test_what_is_looked_up_needs_no_float64_table() -> None:
    table = torch.randn(50, 8, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    rows = torch.tensor([[3, 3], [49, 0]])
    calls = [("e", "aten.embedding.default", "i0", "i1"), ("s", "aten.slice.Tensor", "e", 2, 1, 5),
             ("p", "aten.permute.default", "s", [2, 0, 1]), ("m", "aten.mul.Tensor", "p", 1.5)]  # fmt: skip
    arrays = [to_numpy(table), to_numpy(rows)]
    oracle = Oracle(build(arrays, calls, ["e", "p", "m"]), arrays)
    seen: list[torch.dtype] = []
    oracle._float64.run([table, rows], lambda index, results: results,
                        before=lambda index, call, args, *_: seen.append(args[0].dtype))  # fmt: skip
    assert seen == [torch.bfloat16, torch.float64, torch.float64, torch.float64]
    expected = table[rows][..., 1:5].permute(2, 0, 1)
    for value in (oracle.step.wide(oracle.graph.outputs[1]), oracle.wide[oracle.graph.outputs[1]]):
        assert value.dtype == torch.float64 and torch.equal(value, expected.double())
    assert torch.equal(oracle.wide[oracle.graph.outputs[2]], expected.double() * 1.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_that_err_on_strided_operands_do_not_mislead_the_shadow(dtype: str) -> None:
    """`median` of an expanded tensor and the backward pass of layer norm on a transposed one are wrong in eager, in
    every dtype. A graph of them is judged by what they give on contiguous copies."""
    x = normal(3, 5, dtype=dtype)
    weight = normal(5, seed=2, dtype=dtype)
    arrays = [x[:1].copy(), np.ascontiguousarray(x.T), normal(3, 5, seed=1, dtype=dtype), weight]
    calls = [
        ("e", "aten.expand.default", "i0", (3, 5)), ("m", "aten.median.dim", "e", 0, True),
        ("t", "aten.t.default", "i1"), ("s", "aten.mean.dim", "t", (1,), True), ("r", "aten.exp.default", "s"),
        ("b", "aten.native_layer_norm_backward.default", "i2", "t", (5,), "s", "r", "i3", "i3", (True,) * 3),
    ]  # fmt: skip
    graph = build(arrays, calls, ["m.0", "b.0"])
    oracle = Oracle(graph, arrays)
    assert np.array_equal(oracle.step.values[graph.outputs[0]].numpy(), arrays[0])
    plain = [torch.from_numpy(a) for a in (arrays[2], np.ascontiguousarray(arrays[1].T))]
    mean = plain[1].mean(1, keepdim=True)
    right = torch.ops.aten.native_layer_norm_backward(
        plain[0], plain[1], [5], mean, mean.exp(), torch.from_numpy(weight), torch.from_numpy(weight), [True] * 3
    )[0]
    assert oracle.examine_value(graph.outputs[1], right.numpy()).kind == "calm"
    assert oracle.examine_value(graph.outputs[1], right.numpy() * 1.01).kind != "calm"
