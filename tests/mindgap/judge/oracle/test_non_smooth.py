"""Near a kink a platform may land on either side of it, though no replay does; far from it nothing is forgiven."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.bench import build, normal
from mindgap.aten.operators import overload
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.judge.oracle import MANY, Oracle

#: What follows the sum c, and another tensor e where it takes one.
NON_SMOOTH: dict[str, tuple[Any, ...]] = {
    "relu": ("aten.relu.default", "c"),
    "relu6": ("aten.relu6.default", "c"),
    "clamp": ("aten.clamp.default", "c", 0.5, 1.0),
    "clip": ("aten.clip.default", "c", 0.5, 1.0),
    "clamp_max": ("aten.clamp_max.default", "c", -0.5),
    "hardtanh": ("aten.hardtanh.default", "c", 0.25, 2.0),
    "hardsigmoid": ("aten.hardsigmoid.default", "c"),
    "maximum": ("aten.maximum.default", "c", "i4"),
    "threshold": ("aten.threshold.default", "c", 0.5, 20.0),
    "threshold_backward": ("aten.threshold_backward.default", "i4", "c", 0.0),
    "hardtanh_backward": ("aten.hardtanh_backward.default", "i4", "c", -1.0, 1.0),
    "hardshrink": ("aten.hardshrink.default", "c", 0.5),
}


def non_smooth(name: str, shift: float = -1.0) -> tuple[Any, list[Any]]:
    """(i0·i1 + i2·i3) into an operator with a kink, in bfloat16; most elements on its flat side."""
    arrays = [normal(64, 4096, seed=k, dtype="bfloat16", shift=shift if k == 2 else 0.0) for k in range(5)]
    arrays[3] = normal(64, 4096, seed=3, dtype="bfloat16", shift=1.0)
    calls = [("a", "aten.mul.Tensor", "i0", "i1"), ("b", "aten.mul.Tensor", "i2", "i3"),
             ("c", "aten.add.Tensor", "a", "b"), ("d", *NON_SMOOTH[name]), ("e", "aten.neg.default", "d")]  # fmt: skip
    return build(arrays, calls, ["e"]), arrays


def fused(name: str, arrays: list[Any], off: float = 0.0) -> Any:
    """The same with one rounding only, as a compiler may do it; `off`: an error in the sum, relative to the terms."""
    i0, i1, i2, i3, i4 = (to_torch(a).to(torch.float64) for a in arrays)
    op, *args = NON_SMOOTH[name]
    a, b = i0 * i1, i2 * i3
    total = (a + b + off * (a.abs() + b.abs())).to(torch.bfloat16).to(torch.float64)
    named = {"c": total, "i4": i4}
    return to_numpy(overload(op)(*[named.get(a, a) if isinstance(a, str) else a for a in args]).neg().bfloat16())


@pytest.mark.sampled(12)
@pytest.mark.parametrize("off", [0.0, 0.01, -0.01])
@pytest.mark.parametrize("name", NON_SMOOTH)
def test_what_rounding_may_do_is_rounding(name: str, off: float) -> None:
    """One rounding less, or five hard bounds of the terms, of 16 that are allowed."""
    graph, arrays = non_smooth(name)
    (seen,) = Oracle(graph, arrays, hard=True).examine([fused(name, arrays, off)], MANY)
    assert seen.kind == "calm", f"{seen.count} elements, {seen.worst}"


@pytest.mark.parametrize("name", NON_SMOOTH)
def test_an_error_beyond_rounding_is_seen(name: str) -> None:
    graph, arrays = non_smooth(name)
    (seen,) = Oracle(graph, arrays, hard=True).examine([fused(name, arrays, off=0.5)], MANY)
    assert seen.kind == "discrepant"


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32])
def test_what_does_not_round_has_no_kinks(dtype: torch.dtype) -> None:
    x, y = torch.tensor([0, 1, 1]).to(dtype), torch.tensor([1, 1, 0]).to(dtype)
    arrays = [x.numpy(), y.numpy(), normal(4)]
    # Replays are made where something rounds.
    graph = build(arrays, [("m", "aten.maximum.default", "i0", "i1"), ("e", "aten.exp.default", "i2")], ["m", "e"])
    oracle = Oracle(graph, arrays)
    exact = np.exp(arrays[2])
    assert oracle.examine([np.maximum(*arrays[:2]), exact])[0].kind == "calm"
    assert oracle.examine([np.minimum(*arrays[:2]), exact])[0].kind == "discrepant"
