"""Smoke tests of Dynamo's private parts."""

from __future__ import annotations

from typing import Any

import torch

from mindgap.aten.torch_private.inductor import counters, dynamo_config, list_backends, reset


def test_a_compiled_graph_is_counted() -> None:
    reset()
    before = counters["stats"]["unique_graphs"]
    library: Any = torch
    with dynamo_config.patch(
        {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True, "suppress_errors": False}
    ):
        assert library.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [2, 2]
    assert counters["stats"]["unique_graphs"] == before + 1


def test_inductor_and_eager_are_registered() -> None:
    assert {"eager", "inductor"} <= set(list_backends())
