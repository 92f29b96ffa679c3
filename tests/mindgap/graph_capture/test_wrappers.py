"""Compiled, parallel and nested parts of a program: seen through, or refused with the submodule's name."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from torch import nn

from mindgap.graph import structure_digest
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture
from mindgap.graph_capture.errors import CompiledPart

X = torch.arange(32.0).reshape(4, 8) / 8 - 1.5


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


def compiled_inside() -> nn.Module:
    two = Two()
    two.first = torch.compile(two.first)
    return two


def compiled_in_place() -> nn.Module:
    two = Two()
    two.first.compile()
    return two


def compiled_function() -> Any:
    two, relu = Two(), torch.compile(lambda x: x.relu())
    return lambda x: two.second(relu(two.first(x)))


def parallel() -> nn.Module:
    return nn.DataParallel(Two())


@pytest.mark.parametrize("make", [compiled_inside, compiled_in_place, compiled_function, parallel])
@pytest.mark.filterwarnings("ignore::mindgap.graph_capture.errors.CompiledPart")
def test_the_graph_is_that_of_the_module_inside(make: Any, store: TensorStore) -> None:
    graph = capture(make(), (X,), tensors=store)
    assert structure_digest(graph) == structure_digest(capture(Two(), (X,), tensors=store))


def test_a_compiled_submodule_is_named(store: TensorStore) -> None:
    with pytest.warns(CompiledPart, match="first: torch.compile is not applied"):
        graph = capture(compiled_inside(), (X,), tensors=store)
    assert graph.labels.inputs[1:3] == ("first.weight", "first.bias")
    assert graph.labels.nodes[0].startswith("first ")
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompiledPart)
        capture(Two(), (X,), tensors=store)


def test_a_distributed_module_is_its_module(store: TensorStore, tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        graph = capture(nn.parallel.DistributedDataParallel(Two()), (X,), tensors=store)
    finally:
        torch.distributed.destroy_process_group()
    assert len(graph.nodes) == 3 and "first.weight" in graph.labels.inputs


def test_a_weight_of_a_subclass_of_tensor_is_refused_by_name(store: TensorStore) -> None:
    class Packed(torch.Tensor):
        pass

    two = Two()
    two.first.weight = nn.Parameter(torch.ones(8, 8).as_subclass(Packed))
    with pytest.raises(
        CaptureError, match=r"first.weight: a tensor of type Packed; .*before its weights are quantised"
    ):
        capture(two, (X,), tensors=store)


@pytest.mark.filterwarnings("ignore")
def test_a_float_model_that_is_prepared_for_quantisation_is_captured(store: TensorStore) -> None:
    class Adds(Two):
        def __init__(self) -> None:
            super().__init__()
            self.add = torch.ao.nn.quantized.FloatFunctional()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.add.add(super().forward(x), x)

    assert "aten.add.Tensor" in {node.op for node in capture(Adds().eval(), (X,), tensors=store).nodes}


def nested(layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)], layout=layout)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_is_refused(layout: torch.layout, store: TensorStore) -> None:
    with pytest.raises(CaptureError, match=r"x: a nested tensor.*pad it"):
        capture(Two(), (nested(layout),), tensors=store)

    def makes_one(x: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor([x[:1], x[1:]], layout=layout).to_padded_tensor(0.0)

    with pytest.raises(CaptureError, match=r"a nested tensor.*pad it"):
        capture(makes_one, (X,), tensors=store)
