"""The largest submodules that can be captured are found, and one is captured on the arguments that it gets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture
from mindgap.graph_capture.module_calls import call_inside, module_calls
from mindgap.graph_capture.parts import capturable_parts

IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


class Body(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, width), nn.Linear(width, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.norm(self.down(self.up(x).relu()).mean(1) * scale)[:, None] + x


class Choosy(Body):
    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return super().forward(x, scale) if x.sum() > -1e9 else x


class Generates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 8)
        self.layers = nn.ModuleList([Body(64), Body(64), Choosy(32)])
        self.head = nn.Linear(8, 16)
        self.unused = nn.Linear(64, 64)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        while ids.shape[1] < 6:
            x = self.words(ids)
            for layer in self.layers:
                x = layer(x, scale=0.5)
            word = self.head(x.mean(1)).argmax(-1, keepdim=True)
            ids = torch.cat([ids, word], 1)
            if (word == 99).all():
                break
        return ids


@pytest.fixture
def loop() -> nn.Module:
    return Generates().eval()


def test_the_largest_submodules_come_first_and_like_ones_once(loop: nn.Module) -> None:
    parts = capturable_parts(loop, (IDS,), {}, 60.0, most=4)
    assert [(part.path, part.kind, part.calls, part.alike) for part in parts] == [
        ("layers.0", "Body", 3, 1), ("layers.2.up", "Linear", 3, 0), ("layers.2.down", "Linear", 3, 0),
        ("head", "Linear", 3, 0),
    ]  # fmt: skip
    assert 0.1 < parts[0].share < 0.3 and parts[0].nodes > 5


def test_a_program_without_a_submodule_that_works_has_no_parts() -> None:
    class Only(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0]

    assert capturable_parts(nn.Sequential(Only()), (torch.ones(3),), {}, 60.0) == []


def test_a_submodule_is_captured_on_the_arguments_of_the_call_that_is_asked_for(
    loop: nn.Module, store: TensorStore
) -> None:
    loop.train()
    before = {name: value.clone() for name, value in loop.state_dict().items()}
    module, args, kwargs = call_inside(loop, (IDS,), {}, "layers.1", 2)
    assert module is loop.layers[1] and args[0].shape == (2, 4, 8) and kwargs == {"scale": 0.5}
    assert all(torch.equal(value, before[name]) for name, value in loop.state_dict().items())
    loop.eval()
    module, args, kwargs = call_inside(loop, (IDS,), {}, "layers.1", 2)
    assert "aten.batch_norm.default" in {node.op for node in capture(module, args, kwargs, tensors=store).nodes}
    assert not any(each._forward_pre_hooks for each in loop.modules())


def test_arguments_are_those_before_the_call_writes_to_them() -> None:
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        writes(y)
        return writes(y)

    writes = Writes()
    _, args, _ = call_inside(program, (torch.ones(2),), {}, "writes", 2)
    assert args[0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize(("path", "number", "reason"), [
    ("layer.1", 1, "no submodule 'layer.1'.*there is layers.1"), ("layers", 1, "does not call layers as a module"),
    ("unused", 1, "does not call unused"), ("head", 9, "calls head 3 times"),
])  # fmt: skip
def test_a_submodule_that_is_not_there_or_not_called(loop: nn.Module, path: str, number: int, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        call_inside(loop, (IDS,), {}, path, number)


def test_a_program_that_raises_gives_the_calls_until_then(loop: nn.Module) -> None:
    def program(ids: torch.Tensor) -> Any:
        loop.words(ids)
        raise ValueError("no more")  # here

    assert [call.path for call in module_calls(program, (IDS,), {}, 60.0)] == ["loop.words"]
    with pytest.raises(CaptureError, match=r"before call 1 of loop.head: .*ValueError: no more"):
        call_inside(program, (IDS,), {}, "loop.head")


def test_a_loop_that_does_not_end_is_stopped(loop: nn.Module) -> None:
    def program(ids: torch.Tensor) -> None:
        while True:
            loop.words(ids)

    (call,) = module_calls(program, (IDS,), {}, 0.2)
    assert call.path == "loop.words" and call.calls > 1
