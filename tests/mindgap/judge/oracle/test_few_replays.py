"""Few replays say what all of them say, of outputs that only round and of outputs that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.applied import Program, normal, program
from judge.oracle.bench import PLATFORM, Bench, build, chain, normal as drawn
from judge.oracle.rounding import PROGRAMS, last_bits
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.judge.oracle import FEW, Oracle, examine_cheaply, examine_value_cheaply, is_calm
from mindgap.run.outcome import Job


def ran(one: Program) -> list[Any]:
    """The program on a platform that rounds otherwise."""
    outcome = Bench({PLATFORM: last_bits}).execute(Job(PLATFORM, one.graph, inputs=dict(enumerate(one.inputs))))
    assert outcome.arrays is not None, outcome.message
    return list(outcome.arrays)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_word_is_that_of_all_replays(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    one = program(PROGRAMS[name], normal(8, 16, seed=11).to(dtype), store=tmp_path)
    for outputs in (one.outputs, ran(one)):
        few = examine_cheaply(one.oracle(), outputs)
        all_of_them = one.oracle().examine(outputs)
        assert [(e.kind, e.ill) for e in few] == [(e.kind, e.ill) for e in all_of_them]
        assert all(f.worst >= a.worst * 0.999 for f, a in zip(few, all_of_them, strict=True) if f.kind == "calm")


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sigmas", [0.0, 4.0, 17.0, 40.0, 1e4])
@pytest.mark.parametrize("name", ["deep", "long cumsum", "logsumexp", "cancellation", "differences below"])
def test_one_element_that_far_off_is_told_alike(name: str, sigmas: float, tmp_path: Path) -> None:
    one = program(PROGRAMS[name], normal(8, 16, seed=11), store=tmp_path)
    number = one.graph.outputs[0]
    expected = one.oracle().expectation(number)
    flat = expected.step.flatten().clone()
    for position in range(0, flat.numel(), 13):
        moved = flat.clone()
        moved[position] += sigmas * float(expected.sigma.flatten()[position])
        array = to_numpy(moved.to(torch.float32).reshape(expected.step.shape))
        few = examine_value_cheaply(one.oracle(), number, array)
        all_of_them = one.oracle().examine_value(number, array)
        assert (few.kind, few.ill) == (all_of_them.kind, all_of_them.ill)
        assert is_calm(one.oracle(), number, array) == (all_of_them.kind == "calm")
        assert few.kind == "calm" or sigmas > 16


def test_a_selection_that_no_replay_has_the_shape_of_is_left_to_all_replays() -> None:
    """A size that rounding decides: σ is infinite, and nothing is far or off."""
    x, other = drawn(512), drawn(512) * np.float32(0.1)
    other[:100] -= 1
    calls = [
        ("m", "aten.mul.Tensor", "i0", 0.1),
        ("c", "aten.gt.Tensor", "m", "i1"),
        ("y", "aten.masked_select.default", "m", "c"),
    ]
    graph = build([x, other], calls, ["y"])
    oracle = Oracle(graph, [x, other])
    (number,) = graph.outputs
    array = to_numpy(oracle.step.values[number])
    assert is_calm(oracle, number, array) and number in oracle.replays.uncovered
    assert examine_value_cheaply(Oracle(graph, [x, other]), number, array).ill


def test_a_calm_chain_takes_few_replays() -> None:
    graph, arrays = chain()
    outcome = Bench({PLATFORM: last_bits}).execute(Job(PLATFORM, graph, inputs=dict(enumerate(arrays))))
    oracle = Oracle(graph, arrays)
    assert outcome.arrays is not None
    assert all(e.kind == "calm" for e in examine_cheaply(oracle, outcome.arrays))
    assert oracle.replays.count < FEW / 2


def test_what_is_far_off_takes_few_replays() -> None:
    """As far as products in bfloat16 are from those in float32."""
    graph, arrays = chain()
    oracle = Oracle(graph, arrays)
    wrong = [to_numpy(to_torch(np.asarray(a)) * 1.5) for a in map(oracle_value(oracle), graph.outputs)]
    assert {e.kind for e in examine_cheaply(oracle, wrong)} == {"discrepant"}
    assert oracle.replays.count < FEW


def test_a_suspect_gets_all_replays() -> None:
    """One element alone proves nothing: few replays say little of its σ."""
    graph, arrays = chain()
    oracle = Oracle(graph, arrays)
    wrong = [to_numpy(to_torch(np.asarray(a))).copy() for a in map(oracle_value(oracle), graph.outputs)]
    for each in wrong:
        each.flat[0] += 1.0
    found = examine_cheaply(oracle, wrong)
    assert {e.kind for e in found} == {"discrepant"}
    assert oracle.replays.count == FEW
    again = Oracle(graph, arrays).examine(wrong)
    assert [e.worst for e in found] == [e.worst for e in again]


def oracle_value(oracle: Oracle) -> Any:
    """S's values, as arrays."""
    return lambda number: to_numpy(oracle.step.values[number])


def test_what_cancels_is_ill_conditioned_with_few_replays_too() -> None:
    """The sum of large numbers that cancel: 16 σ cover the result, although one replay may land right on it."""
    x = drawn(64, scale=1e6)
    graph = build([x], [("a", "aten.exp.default", "i0"), ("s", "aten.sin.default", "i0"),
                        ("b", "aten.mul.Tensor", "s", 1e6), ("c", "aten.sin.default", "b")], ["c"])  # fmt: skip
    oracle = Oracle(graph, [x])
    (found,) = examine_cheaply(oracle, [to_numpy(oracle.step.values[graph.outputs[0]])])
    assert found.ill and found.kind == "calm"
    oracle = Oracle(graph, [x])
    assert is_calm(oracle, graph.outputs[0], to_numpy(oracle.step.values[graph.outputs[0]]))
    assert oracle.replays.count == 1, "how little it says needs no further replay"


def test_another_shape_or_dtype_is_structural() -> None:
    graph, arrays = chain()
    oracle = Oracle(graph, arrays)
    value = to_numpy(oracle.step.values[graph.outputs[0]])
    assert examine_value_cheaply(oracle, graph.outputs[0], value[:1]).kind == "structural"
    assert examine_value_cheaply(oracle, graph.outputs[0], value.astype(np.float64)).kind == "structural"
