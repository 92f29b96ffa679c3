"""Inductor's Triton kernels in Triton's interpreter. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mindgap.aten.torch_private.triton_kernels import InterpretedKernel, TritonRun
from mindgap.platforms.delegation import delegation_of
from mindgap.run.outcome import Job
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM = "triton/interpreter"


class Launched:
    """A kernel that records the grids and block sizes that it is launched with."""

    def __init__(self) -> None:
        self.launches: list[tuple[tuple[int, ...], dict[str, Any]]] = []

    @staticmethod
    def fn(pointer: Any, xnumel: int, r0_numel: int, XBLOCK: int, R0_BLOCK: int) -> None: ...

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *given, **blocks: self.launches.append((grid, blocks))


@pytest.mark.parametrize(("small", "blocks", "grid"), [
    (False, {"XBLOCK": 8, "R0_BLOCK": 2048}, (5, 1, 1)),
    (True, {"XBLOCK": 8, "R0_BLOCK": 16}, (5, 1, 1)),
])  # fmt: skip
def test_a_grid_covers_all_elements(small: bool, blocks: dict[str, int], grid: tuple[int, ...]):
    function, seen = Launched(), TritonRun()
    kernel = InterpretedKernel(function, "triton_red_0", "reduction", {"x": 64, "r0_": 8192}, small, lambda: seen)
    kernel.run("pointer", 40, 5000, stream=0)
    assert function.launches == [(grid, blocks)] and seen.kernels == {"triton_red_0": 1}
    pointwise = InterpretedKernel(function, "triton_poi_0", "pointwise", {"x": 4096}, small, lambda: seen)
    pointwise.run("pointer", 4096, 1, R0_BLOCK=1, stream=0)
    x = 16 if small else 1024
    assert function.launches[-1] == ((4096 // x, 1, 1), {"XBLOCK": x, "R0_BLOCK": 1})


@pytest.mark.nightly
def test_kernels_for_gpus_compute_what_eager_computes():
    with workers(PLATFORM) as pool:
        for function in (lambda x: torch.softmax(torch.relu(x), -1), lambda x: x.sum(0)):
            graph, inputs = captured(function, normal(5, 7))
            outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
            assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
            np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)
            found = delegation_of(outcome.facts)
            assert found is not None and found.gave_back == {} and all(each.startswith("triton_") for each in found.ran)
        assert pool.describe(PLATFORM)["execution"] == "emulated"
        for function, said in ((torch.lgamma, "the function lgamma"), (lambda x: x @ x.T, "no Triton kernel of it")):
            graph, _ = captured(function, normal(5, 7))
            outcome = pool.run(Job(PLATFORM, graph))
            assert outcome.status == "unsupported" and said in outcome.message, outcome.message
