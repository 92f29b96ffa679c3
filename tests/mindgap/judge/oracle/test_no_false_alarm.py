"""PyTorch's own results of many operators, on ordinary and on nasty operands: an alarm where they are wrong, and only
there."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.applied import Applied, applied
from judge.oracle.bench import build, normal
from judge.oracle.formulas import formulations, wrong_elements
from judge.oracle.nasty import calls, nasty
from mindgap.aten.tensors import to_numpy
from mindgap.graph import DType
from mindgap.judge.oracle import MANY, Oracle

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
KINDS = [name for name, _ in nasty(torch.float32, (16, 16))]
#: What PyTorch refuses on such operands.
REFUSED = ("not implemented", "should be between 0 and 1", "did not converge", "failed to converge")


@pytest.mark.sampled(10)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_alarms_on_eager_are_where_it_is_wrong_and_nowhere_else(dtype: str, kind: str) -> None:
    x = dict(nasty(DTYPES[dtype], (16, 16)))[kind]
    surprises: list[str] = []
    checked = compared = 0
    for op, args, kwargs in calls(x):
        try:
            one = applied(op, *args, **kwargs)
        except RuntimeError as error:
            assert any(words in str(error) for words in REFUSED), f"{op}: {error}"
            continue
        checked += 1
        with warnings.catch_warnings():
            readings = formulations(op, args, kwargs)
        compared += readings is not None
        surprise = _surprise(one, readings)
        if surprise:
            surprises.append(f"{op} {[a for a in args if not isinstance(a, torch.Tensor)]} {kwargs}: {surprise}")
    assert not surprises
    assert checked > 150 and compared > 50


def _surprise(one: Applied, readings: Sequence[Any] | None) -> str:
    """What the alarms on an operator of eager and an independent formulation disagree about; empty for nothing."""
    kinds = [k for k in one.kinds() if k is not None]
    if readings is None:
        return f"alarm: {kinds}" if kinds else ""
    (got,) = (y for y in one.outputs if y is not None)
    wrong, inexact = wrong_elements(got, readings)
    bad = one.expected.examine(0, to_numpy(got)).bad
    alarmed = bad.expand(got.shape) if kinds and bad is not None else torch.zeros(got.shape, dtype=torch.bool)
    if kinds and not bool(alarmed.any()):
        return f"alarm in bulk: {kinds}"
    if bool((alarmed & ~wrong & ~inexact).any()):
        return f"alarm on {got[alarmed & ~wrong & ~inexact][:3].tolist()}, which are right"
    missed = wrong & ~alarmed
    return f"no alarm on {got[missed][:3].tolist()}, which are wrong" if bool(missed.any()) else ""


def test_what_rounding_lets_overflow_may_be_anything_and_its_neighbours_may_not() -> None:
    """Whether the largest float and a score overflow is decided by how their sum is rounded."""
    mask = np.full((4, 90), np.finfo(np.float32).min, np.float32)
    mask[0, ::2] = mask[2, ::3] = np.finfo(np.float32).max
    mask[1, ::2] = mask[3, ::3] = 0
    arrays = [normal(4, 90), mask, normal(90, 6, seed=1)]
    calls = [
        ("a", "aten.add.Tensor", "i0", "i1"),
        ("p", "aten.softmax.int", "a", -1),
        ("y", "aten.mm.default", "p", "i2"),
    ]
    graph = build(arrays, calls, ["y"])
    oracle = Oracle(graph, arrays, hard=True)
    got = torch.softmax(torch.from_numpy(arrays[0] + mask), -1) @ torch.from_numpy(arrays[2])
    (calm,) = oracle.examine([got.numpy()], MANY)
    assert calm.kind == "calm" and torch.isinf(oracle.replays.sigma(graph.outputs[0])).any(1).tolist() == [
        True, False, True, False,
    ]  # fmt: skip
    for row, kind in [(0, "calm"), (1, "discrepant")]:
        wrong = got.clone()
        wrong[row] *= 1.001
        assert oracle.examine([wrong.numpy()], MANY)[0].kind == kind


def test_a_cast_to_fewer_bits_and_back_may_be_left_out_and_may_not_hide_an_error() -> None:
    arrays = [normal(8, 40), normal(40, 16, seed=1)]
    calls = [
        ("m", "aten.mm.default", "i0", "i1"), ("h", "aten.to.dtype", "m", DType("float16")),
        ("y", "aten.to.dtype", "h", DType("float32")),
    ]  # fmt: skip
    graph = build(arrays, calls, ["y"])
    oracle = Oracle(graph, arrays, hard=True)
    exact = torch.from_numpy(arrays[0]).double() @ torch.from_numpy(arrays[1]).double()
    # Another order of summation, so that errors of float32 are there that half precision would hide.
    halves = [
        (torch.from_numpy(arrays[0][:, s]) @ torch.from_numpy(arrays[1][s])) for s in (slice(0, 20), slice(20, 40))
    ]
    kept, rounded = halves[0] + halves[1], (halves[0] + halves[1]).half().float()
    assert (kept.double() - exact).abs().max() > 0
    for result in (kept, rounded, exact.float(), torch.where(torch.arange(16) % 2 == 0, kept, rounded)):
        assert oracle.examine([result.numpy()], MANY)[0].kind == "calm"
    for wrong in (kept * (1 + 1e-3), kept.bfloat16().float(), rounded + 0.01):
        verdict = oracle.examine([wrong.numpy()], MANY)[0]
        assert verdict.kind == "discrepant" and verdict.count > 60
    one = kept.clone()
    one[3, 3] *= 1 + 2e-4
    assert oracle.examine([one.numpy()], MANY)[0].count == 1
