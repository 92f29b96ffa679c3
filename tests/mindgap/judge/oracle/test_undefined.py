"""What no standard defines is masked, what follows from it is tainted, and nothing else is excused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.applied import applied
from judge.oracle.bench import build, normal
from mindgap.judge.oracle import Oracle


def mask_of(op: str, *args: Any, **kwargs: Any) -> list[bool]:
    one = applied(op, *args, **kwargs)
    mask = one.oracle.step.undefined.get(one.graph.outputs[0])
    return [] if mask is None else mask.flatten().tolist()


def test_floats_that_no_integer_holds() -> None:
    x = torch.tensor([1.5, 3e9, -3e9, float("nan"), float("inf"), 2147483520.0, -2147483648.0])
    assert mask_of("aten.to.dtype", x, torch.int32) == [False, True, True, True, True, False, False]
    x = torch.tensor([9.3e18, -9223372036854775808.0, 9.2e18])
    assert mask_of("aten.to.dtype", x, torch.int64) == [True, False, False]
    x = torch.tensor([-1.0, -0.5, 255.9, 256.0])
    assert mask_of("aten.to.dtype", x, torch.uint8) == [True, False, False, True]
    assert mask_of("aten.to.dtype", torch.tensor([300, -1]), torch.uint8) == []


def test_shifts_past_the_width() -> None:
    x, count = torch.tensor([1, 1, 1, 1], dtype=torch.int32), torch.tensor([0, 31, 32, -1], dtype=torch.int32)
    assert mask_of("aten.bitwise_left_shift.Tensor", x, count) == [False, False, True, True]


def test_writes_to_one_place_twice() -> None:
    base, index, values = torch.zeros(4), torch.tensor([0, 2, 2]), torch.arange(3.0)
    assert mask_of("aten.index_put.default", base, [index], values) == [False, False, True, False]
    assert mask_of("aten.index_put.default", base, [index], values, True) == []
    assert mask_of("aten.scatter.src", base, 0, index, values) == [False, False, True, False]
    assert mask_of("aten.put.default", base, index, values) == [False, False, True, False]
    assert mask_of("aten.put.default", base, index, values, True) == []
    assert mask_of("aten.scatter_add.default", base, 0, index, values) == []
    assert mask_of("aten.index_copy.default", base, 0, index, values) == [False, False, True, False]


def test_the_same_value_written_twice_is_defined() -> None:
    base, index = torch.zeros(4), torch.tensor([0, 2, 2, 3, 3])
    values = torch.tensor([1.0, 5.0, 5.0, 5.0, float("nan")])
    assert mask_of("aten.scatter.value", base, 0, index, 7.0) == []
    assert mask_of("aten.index_put.default", base, [index], torch.tensor(7.0)) == []
    assert mask_of("aten.index_put.default", base, [index], values) == [False, False, False, True]
    assert mask_of("aten.put.default", base, index, values) == [False, False, False, True]
    assert mask_of("aten.scatter.src", base, 0, index, values) == [False, False, False, True]
    assert mask_of("aten.index_copy.default", base, 0, index, values) == [False, False, False, True]
    rows = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    assert mask_of("aten.index_put.default", torch.zeros(2, 2), [torch.tensor([0, 0])], rows) == []


def test_what_is_not_finite_in_transforms_and_factorisations() -> None:
    x = torch.tensor([[1.0, float("inf")], [0.0, 1.0]])
    assert mask_of("aten.fft_fft.default", x) == [True] * 4 and mask_of("aten.linalg_inv.default", x) == [True] * 4
    assert mask_of("aten.fft_fft.default", torch.eye(2)) == mask_of("aten.linalg_inv.default", torch.eye(2)) == []
    assert mask_of("aten.linalg_norm.default", x) == []


def test_what_is_not_finite_in_a_convolution_is_undefined_but_where_a_window_holds_nan() -> None:
    x, weight = torch.ones(1, 1, 6), torch.ones(1, 1, 2)
    x[0, 0, 1], x[0, 0, 5] = float("nan"), float("inf")
    assert mask_of("aten.conv1d.default", x, weight) == [False, False, True, True, True]
    assert mask_of("aten.conv1d.default", torch.ones(1, 1, 6), weight) == []


def test_memory_never_written() -> None:
    assert mask_of("aten.empty_like.default", torch.zeros(3)) == [True] * 3
    assert mask_of("aten.zeros_like.default", torch.zeros(3)) == []


def test_what_follows_is_tainted_and_nothing_beside_it() -> None:
    base, index, values = np.zeros(4, np.float32), np.array([0, 2, 2]), normal(3)
    calls = [("w", "aten.scatter.src", "i0", 0, "i1", "i2"), ("m", "aten.mul.Tensor", "w", 2.0)]
    graph = build([base, index, values], calls, ["m"])
    oracle = Oracle(graph, [base, index, values])
    assert oracle.tainted[graph.outputs[0]].tolist() == [False, False, True, False]
    right = oracle.step.values[graph.outputs[0]].numpy().copy()
    other = right.copy()
    other[2] = values[1] * 2 + 55
    examined = oracle.examine([other])[0]
    assert examined.kind == "calm" and examined.tainted == 1
    other[1] = 0.5
    assert oracle.examine([other])[0].kind == "discrepant"


def test_undefined_values_that_nothing_reads_taint_nothing() -> None:
    x = normal(4)
    calls = [("e", "aten.empty_like.default", "i0"), ("z", "aten.mul.Tensor", "i0", 2.0)]
    graph = build([x], calls, ["z"])
    assert not Oracle(graph, [x]).tainted[graph.outputs[0]].any()


@pytest.mark.parametrize("slot", [0, 2])
def test_singular_vectors_have_no_sign(slot: int) -> None:
    one = applied("aten._linalg_svd.default", normal_tensor())
    y = one.outputs[slot]
    assert y is not None and one.kind(-y, slot) is None
    values = one.outputs[1]
    assert values is not None and one.kind(values * 1.01, 1) is not None


def normal_tensor() -> torch.Tensor:
    return torch.from_numpy(normal(6, 4))


def test_an_overflowing_intermediate_taints_what_follows() -> None:
    x = normal(4, 16, scale=1e19)
    calls = [("n", "aten.layer_norm.default", "i0", [16]), ("m", "aten.mul.Tensor", "n", 2.0)]
    graph = build([x], calls, ["m"])
    oracle = Oracle(graph, [x])
    assert bool(oracle.tainted[graph.outputs[0]].all())
    assert oracle.examine([np.full((4, 16), np.nan, np.float32)])[0].kind == "calm"
