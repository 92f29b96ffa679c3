"""Smoke tests of PyTorch's dispatch modes."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from mindgap.aten.torch_private.fake_tensors import (
    FunctionalTensorMode,
    TorchDispatchMode,
    dispatch_functionalize,
    enable_pre_dispatch,
    enable_python_dispatcher,
)


class Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_each_call() -> None:
    with Recorder() as recorder, enable_python_dispatcher(), enable_pre_dispatch():
        torch.ones(2) + 1
    assert "aten.add.Tensor" in recorder.calls


def test_functionalisation_writes_in_place_operators_as_functional_ones() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        made = x.clone()
        made.add_(x)
        return made

    traced = make_fx(dispatch_functionalize(doubled, FunctionalTensorMode()))(torch.ones(2))
    calls = {str(node.target) for node in traced.graph.nodes}
    assert "aten.add.Tensor" in calls
    assert "aten.add_.Tensor" not in calls
