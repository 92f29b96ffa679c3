"""A program whose outputs depend on uninitialised memory is refused with the line that makes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mindgap.graph import TensorStore
from mindgap.graph_capture import CaptureError, capture
from mindgap.graph_capture.errors import UnprovenCapture
from mindgap.graph_capture.unwritten_memory import refuse_unwritten_reads

X = torch.ones(3)
KEPT: dict[str, torch.Tensor] = {}


def reads_a_part(x: torch.Tensor) -> torch.Tensor:
    whole = torch.empty(3)
    whole.copy_(x)
    part = torch.empty_like(x)  # here
    part[:2] = x[:2]
    return part * 2 + whole


def reads_booleans(x: torch.Tensor) -> torch.Tensor:
    mask = torch.empty(3, dtype=torch.bool)  # here
    mask[0] = True
    return torch.where(mask, x, -x)


def writes_all(x: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(4)
    out[:3], out[3] = x, 1.0
    return out * 2 + torch.rand(4)


@pytest.mark.parametrize("program", [reads_a_part, reads_booleans])
def test_the_line_of_the_memory_is_named(
    program: Callable[[torch.Tensor], torch.Tensor], tmp_path_factory: pytest.TempPathFactory
) -> None:
    import inspect

    source, first = inspect.getsourcelines(program)
    line = first + next(n for n, text in enumerate(source) if "# here" in text)
    with pytest.raises(CaptureError, match=rf"not written \(test_unwritten_memory.py:{line}\)"):
        capture(program, (X,), tensors=TensorStore(tmp_path_factory.mktemp("tensors")))


def test_memory_that_is_written_first_is_captured(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert capture(writes_all, (X,), tensors=TensorStore(tmp_path_factory.mktemp("tensors"))).nodes


def keeps_its_memory(x: torch.Tensor) -> torch.Tensor:
    if "ones" not in KEPT:
        KEPT["ones"] = torch.empty(3).fill_(1.0)
    return KEPT["ones"]


def test_memory_that_code_keeps_from_call_to_call_is_that_of_real_runs(tmp_path: Path) -> None:
    assert [node.op for node in capture(keeps_its_memory, (X,), tensors=TensorStore(tmp_path)).nodes] == [
        "aten.empty.memory_format", "aten.fill_.Scalar"
    ]  # fmt: skip
    assert type(KEPT["ones"]) is torch.Tensor


def refuses_zeros(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("no scale of zero")


def test_a_program_that_refuses_zeros_is_unproven(tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = capture(writes_all, (X,), tensors=TensorStore(tmp_path_factory.mktemp("tensors")))
    with pytest.warns(
        UnprovenCapture, match=r"not looked for: with zeros there it raised ValueError: no scale of zero"
    ):
        refuse_unwritten_reads(graph, refuses_zeros, (X,), {})
