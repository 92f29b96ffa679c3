"""Products with large weights, a block of columns at a time, give what they give as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
import torch

from judge.oracle.bench import build, normal
from mindgap.graph import Graph
from mindgap.judge.oracle import Oracle
from mindgap.judge.oracle.evaluation import float64
from mindgap.judge.oracle.shadows.segments import needed_bytes, segments

CALLS: Final[dict[str, tuple[str, list[tuple[int, ...]], dict[str, float]]]] = {
    "mm": ("aten.mm.default", [(5, 80), (80, 37)], {}),
    "linear": ("aten.linear.default", [(2, 5, 80), (37, 80), (37,)], {}),
    "linear without bias": ("aten.linear.default", [(80,), (37, 80)], {}),
    "addmm": ("aten.addmm.default", [(37,), (5, 80), (80, 37)], {"alpha": 0.5, "beta": 2.0}),
    "addmm of a matrix": ("aten.addmm.default", [(5, 37), (5, 80), (80, 37)], {}),
    "addmm of a number": ("aten.addmm.default", [(), (5, 80), (80, 37)], {"beta": 0}),
}


def seen(graph: Graph, arrays: list[Any]) -> list[torch.Tensor]:
    """W, S, both bounds and σ."""
    oracle, (number,) = Oracle(graph, arrays), graph.outputs
    oracle.replays.ensure(2)
    step = oracle.step
    values = [oracle.wide[number], step.wide(number), step.hard[number], step.typical[number]]
    return [each.to(torch.float64) for each in (*values, oracle.replays.sigma(number))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_blocks_give_what_the_whole_gives(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, shapes, kwargs = CALLS[name]
    arrays = [normal(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]
    if kwargs.get("beta") == 0:
        arrays[0][...] = float("nan")
    graph = build(arrays, [("y", op, *(f"i{n}" for n in range(len(arrays))))], ["y"])
    graph = replace(graph, nodes=(replace(graph.nodes[0], kwargs=tuple(sorted(kwargs.items()))),))
    whole = seen(graph, arrays)
    monkeypatch.setattr("mindgap.judge.oracle.evaluation.large_weights.LARGE", 1)
    # Columns in blocks of 12 and a rest.
    monkeypatch.setattr("mindgap.judge.oracle.evaluation.large_weights._BLOCK", 1000)
    assert float64.bind_call(graph, graph.nodes[0]).large is not None
    asked = needed_bytes(graph, segments(graph), graph.outputs)[1]
    assert asked < 8 * 6 * 80 * 37, "no float64 copies of the weight"
    for one, other in zip(seen(graph, arrays), whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-14, equal_nan=False)
