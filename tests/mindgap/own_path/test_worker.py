"""What a worker answers about a program, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from mindgap.own_path.runners import program_runner_of, runner_json
from mindgap.own_path.worker import Programs
from mindgap.platforms.name import parse
from mindgap.platforms.registry import find
from mindgap.sources import Built

X = torch.linspace(-1, 1, 6)


class Unwatched(torch.nn.Module):
    """Refuses to run while it is watched. `watched`: how often that was tried."""

    watched = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if type(_get_current_dispatch_mode()).__name__ == "_CustomCalls":
            Unwatched.watched += 1
            raise TypeError("no mode is known here")
        return x * 2


def asked(**more: Any) -> dict[str, Any]:
    platform = parse("cpu/jit")
    runner = program_runner_of(find(platform)[0], platform)
    assert runner is not None
    return {"source": "", "first": "", "runner": runner_json(runner), "seconds": 5.0, "others": False, "at": "", **more}


def test_operators_that_cannot_be_watched_are_told_and_tried_once() -> None:
    programs = Programs(Built(Unwatched(), (X,), {}))
    for _ in range(3):
        header, _ = programs.locate(asked(apart=0.1))
        assert header["unchecked"] == "TypeError: no mode is known here"
    assert Unwatched.watched == 1


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "old.onnx").write_bytes(b"\x08\x08\x12\x7fno model")
    header, _ = Programs(Built(torch.nn.ReLU(), (X,), {})).changes(asked(path=str(tmp_path / "old.onnx")))
    assert header["weights"] == () and "Decode" in header["reason"]
