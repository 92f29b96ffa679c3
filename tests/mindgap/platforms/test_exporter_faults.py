"""Faults of `torch.onnx.export` that `mindgap coverage` shows on ONNX Runtime: the exported nodes tell who is right."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import mindgap


class Abs(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.abs(x)


class TrainedNorm(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> Any:
        return torch.ops.aten._native_batch_norm_legit(x, w, b, m, v, True, 0.1, 1e-5)[0]


def _nodes(model: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.onnx.export(model, args, dynamo=True, verbose=False, optimize=False)
    assert exported is not None
    return [node.op_type for node in exported.model_proto.graph.node]


@pytest.mark.nightly
def test_a_cast_that_is_not_undone_and_statistics_that_are_not_of_the_batch() -> None:
    half = (torch.linspace(-1, 1, 8).half(),)
    batch = (torch.linspace(-1, 2, 60).reshape(4, 3, 5), *(torch.linspace(0.5, 1.5, 3) for _ in range(4)))
    # The exporter computes in float32 and gives float32; it normalises by the running statistics.
    assert _nodes(Abs(), half)[-1] == "Abs" and "ReduceMean" not in _nodes(TrainedNorm(), batch)
    with mindgap.Session() as session:
        found = [
            session.diff(model, args, platforms=["onnxruntime/cpu"], own_path=False).rows[0]
            for model, args in ((Abs(), half), (TrainedNorm(), batch))
        ]
    assert [(row.verdict, row.blame) for row in found] == [("structural", "platform"), ("discrepant", "platform")]
