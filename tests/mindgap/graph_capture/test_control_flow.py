"""`torch.cond`, `while_loop`, `scan` and `map`: captured along the path that the arguments take, which is told."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import cond, nn
from torch._higher_order_ops import map as map_over, scan, while_loop

from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture, control_flow
from mindgap.graph_capture.control_flow import written_out
from mindgap.graph_capture.errors import PathTaken

X = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.3], [0.4, 0.2, 0.6, 0.1]])


class Branches(nn.Module):
    """Two branches with layers of their own, one inside the other."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.positive, self.negative = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return cond(x.max() > 10, torch.sin, torch.cos, (self.positive(x),))

        return cond(x.sum() > 0, inner, lambda x: self.negative(x), (x,))  # here


def loops(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return while_loop(lambda i, y: y.sum() < 50, lambda i, y: (i + 1, y * 2 + 1), (torch.tensor(0), x))  # here


def scans(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return scan(lambda state, row: (state + row, state * row), torch.ones(4), x)


def scans_backwards(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return scan(lambda state, row: (state + row, state * row), torch.ones(3), x, dim=1, reverse=True)


def maps(x: torch.Tensor) -> torch.Tensor:
    return map_over(lambda row, whole: row.sin() + whole.sum(0), x, x * 2)


def line_of(program: Any) -> str:
    source, first = inspect.getsourcelines(program)
    return f"test_control_flow.py:{first + next(i for i, text in enumerate(source) if '# here' in text)}"


@pytest.mark.parametrize("sign", [1, -1])
def test_the_graph_holds_the_branch_that_is_taken(sign: int, store: TensorStore) -> None:
    module = Branches()
    with pytest.warns(PathTaken) as told:
        graph = capture(module, (X * sign,), tensors=store)
    held = [label for label in graph.labels.inputs if "weight" in label]
    assert held == ["positive.weight" if sign > 0 else "negative.weight"]
    assert [node.op for node in graph.nodes if node.op in ("aten.cos.default", "aten.sin.default")] == (
        ["aten.cos.default"] if sign > 0 else []
    )
    words = f"the {'true' if sign > 0 else 'false'} branch of torch.cond at line {line_of(Branches)}"
    assert words in str(told[0].message) and "which these arguments take" in str(told[0].message)


def test_a_loop_runs_as_often_as_it_does_with_the_arguments(store: TensorStore) -> None:
    with pytest.warns(PathTaken, match=f"3 iterations of while_loop at line {line_of(loops)}"):
        graph = capture(loops, (X,), tensors=store)
    assert [node.op for node in graph.nodes].count("aten.mul.Tensor") == 3 and graph.labels.inputs[0] == "x"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", [Branches(), loops, scans, scans_backwards, maps])
def test_the_path_gives_what_pytorch_gives(program: Any) -> None:
    expected = program(X)
    with written_out(lambda _, condition: bool(condition)):
        found = program(X)
    pairs = [(expected, found)] if isinstance(expected, torch.Tensor) else zip(expected, found, strict=True)
    assert all(torch.allclose(a, b) for a, b in pairs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("program", "op", "count"), [
    (scans, "aten.mul.Tensor", 3), (scans_backwards, "aten.mul.Tensor", 4), (maps, "aten.sin.default", 3),
])  # fmt: skip
def test_steps_over_a_dimension_are_written_out(program: Any, op: str, count: int, store: TensorStore) -> None:
    graph = capture(program, (X,), tensors=store)
    assert [node.op for node in graph.nodes].count(op) == count


def test_a_loop_that_does_not_end_is_refused(store: TensorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_flow, "_ITERATIONS", 50)

    def endless(x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.sum() > -1, lambda x: (x + 1,), (x,))

    with pytest.raises(CaptureError, match="while_loop runs more than 50 times; capture its body"):
        capture(endless, (X,), tensors=store)


def test_a_program_without_control_flow_is_told_nothing(recwarn: pytest.WarningsRecorder, store: TensorStore) -> None:
    capture(torch.sin, (X,), tensors=store)
    assert not any(issubclass(each.category, PathTaken) for each in recwarn)
