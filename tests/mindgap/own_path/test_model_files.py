"""`FILE.onnx` goes byte for byte to the runtimes that read ONNX in environments of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.runners import program_runner_of
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.environments import made_environment
from mindgap.platforms.name import parse
from mindgap.platforms.registry import registered
from mindgap.run.message import WorkerFailed
from onnx_files.test_file import saved, value

RUNTIMES = {"tinygrad/cpu": "tinygrad", "tvm/cpu": "tvm"}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A file whose inputs are not in alphabetical order, and one with an operator that both runtimes lack."""
    nodes = [helper.make_node("MatMul", ["x", "a"], ["m"]), helper.make_node("Softmax", ["m"], ["y"], axis=-1)]
    inputs = [value("x", ["n", 3]), value("a", [3, 4])]
    whole = saved(tmp_path / "whole.onnx", nodes, inputs, [value("y", None), value("m", None)])
    det = saved(tmp_path / "det.onnx", [helper.make_node("Det", ["x"], ["y"])], [value("x", [2, 2])], [value("y", [])])
    return whole, det


@pytest.mark.parametrize("name", RUNTIMES)
def test_the_runner_of_a_file_reads_that_file(name: str, files: tuple[Path, Path]) -> None:
    runner = program_runner_of(registered(name), parse(name), files[0])
    assert runner is not None and repr(str(files[0])) in runner.run and "model.matched(" in runner.run
    assert "torch.onnx.export" not in runner.run and "from_exported_program" not in runner.run


@pytest.mark.nightly
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_file_is_run_or_refused_by_operator(name: str, files: tuple[Path, Path]) -> None:
    if made_environment(RUNTIMES[name]) is None:
        pytest.skip(f"no environment {RUNTIMES[name]}")
    with OwnPathClient(120.0) as client:
        ran = UserProgram(client, f"{files[0]}?n=5").run(parse(name))
        refused = UserProgram(client, str(files[1])).run(parse(name))
    assert ran is not None and ran.source_file and ran.outputs and ran.eager, ran
    assert [each.shape for each in ran.outputs] == [(5, 4), (5, 4)]
    for ours, theirs in zip(ran.outputs, ran.eager, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)
    assert refused is not None and not refused.outputs and "Det" in refused.reason and "support" in refused.reason


@pytest.mark.parametrize(("as_file", "fed"), [(True, False), (False, True)])
def test_memory_that_does_not_suffice_for_a_file_says_nothing_of_the_platform(
    as_file: bool, fed: bool, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: Any, **__: Any) -> Any:
        raise WorkerFailed("oom", "out of memory while running it")

    with OwnPathClient(5.0) as client:
        monkeypatch.setattr(client, "ask", ended)
        ran = UserProgram(client, f"{files[0]}?n=5" if as_file else "model.py:make").run(parse("onnxruntime/cpu"))
    assert ran is not None and ran.fed == fed and ran.reason == "out of memory while running it"
