"""Every command that takes a model or a file, with an `.onnx` file: it works, or says in one line why not."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from cli.other_version import OTHER_VERSION
from mindgap.cli import main
from mindgap.own_path.processes import Processes
from mindgap.platforms.environments.installation import adopt
from mindgap.workflows.diff import large_models

#: Commands that run the model, and what they print of it.
RUN = {
    "capture tiny.onnx -o tiny.mindgap": "tiny.mindgap: tiny, 5 nodes, 3 operators",
    "diff tiny.onnx -p cpu/jit": "cpu/jit  identical",
    "diff tiny.onnx -p onnxruntime/cpu": "1 model × 1 platform against cpu/eager",
    "trace tiny.onnx -p cpu/jit": "5 of 5 values are equal",
    "reduce tiny.onnx -p cpu/jit": "tiny on cpu/jit: identical: nothing to reduce",
    "upgrade tiny.onnx --to other -p cpu/eager": "1 same",
    "metamorphic tiny.onnx -p cpu/eager": "tiny ~ twice",
    "invariance tiny.onnx -p cpu/jit": "position     ",
    "corpus build catalogue tiny.onnx -j 1": "1 of 1 graphs read back from disk with their tensors",
    "study speed tiny.onnx -p cpu/jit --repeat 2": "tiny",
    "study task tiny.onnx data.npz -p cpu/jit": "cpu/jit",
    "study deviations --collect here.json.zst tiny.onnx -p cpu/eager": "here.json.zst",
    # Two functions of the code, and three of the model.
    "portability model.py -p cpu/jit --run tiny.onnx": "cpu/jit, of 5 functions: runs: 5",
}
#: Commands that have no use for it, and why.
REFUSED = {
    "report tiny.onnx -o page.html": "tiny.onnx is not JSON",
    "repeats tiny.onnx": "tiny.onnx: no such operator",
    "coverage tiny.onnx": "'tiny.onnx' is not DEVICE/MODE",
    "campaign run tiny.onnx": "tiny.onnx:1: this is no TOML",
    "causes check tiny.onnx": "tiny.onnx",
    "study gap tiny.onnx": "tiny.onnx is no store",
    "study deviations tiny.onnx": "tiny.onnx",
    "corpus list tiny.onnx": "tiny.onnx is no store",
    "synth tiny.onnx": "tiny.onnx is no store",
    "portability tiny.onnx -p cpu/jit": "no Python file; --run tiny.onnx tries the calls of a model",
    "upgrade tiny.onnx --to absent -p cpu/eager": "absent",
    "diff tiny.onnx -p cpu/jit --baseline tiny.onnx": "tiny.onnx",
}


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file with a dynamic first dimension."""
    path = tmp_path_factory.mktemp("onnx") / "tiny.onnx"
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (torch.randn(2, 8),), path, input_names=["x"], output_names=["y"], external_data=False,
            dynamic_shapes=({0: "batch"},), verbose=False,
        )  # fmt: skip
    return path.read_bytes()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.nightly
@pytest.mark.parametrize(("command", "printed"), RUN.items())
def test_a_command_runs_the_file(
    folder: Path, written: bytes, capfd: pytest.CaptureFixture[str], command: str, printed: str
) -> None:
    (folder / "tiny.onnx").write_bytes(written)
    random = np.random.default_rng(0)
    np.savez(folder / "data.npz", x=random.standard_normal((20, 8), np.float32), labels=random.integers(0, 3, 20))
    (folder / "model.py").write_text("import torch\n\nx = torch.tanh(torch.ones(2))\n")
    if "--to other" in command:
        python = folder / "python"
        (folder / "sitecustomize.py").write_text(OTHER_VERSION)
        python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}:$PYTHONPATH exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        adopt("other", str(python), lambda _: None)
    status = main(command.split())
    said = capfd.readouterr()
    assert status == 0, said.err
    assert printed in said.out, said.out
    assert "Traceback" not in said.err


@pytest.mark.parametrize(("command", "why"), REFUSED.items())
def test_a_command_refuses_the_file_in_one_line(
    folder: Path, capfd: pytest.CaptureFixture[str], command: str, why: str
) -> None:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save_model(onnx.helper.make_model(graph), "tiny.onnx")
    status = main(command.split())
    said = capfd.readouterr()
    assert (status, said.out) == (2, ""), said
    assert said.err.startswith("mindgap: ") and said.err.count("\n") == 1 and why in said.err, said.err


def test_a_large_file_is_run_after_its_graph_and_leaves_no_process(
    folder: Path, written: bytes, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tiny.onnx").write_bytes(written)
    monkeypatch.setattr(large_models, "_LARGE_BYTES", 16)
    free: list[int] = []
    end_idle = Processes.end_idle

    def noted(self: Processes) -> None:
        free.append(len(self._all))
        end_idle(self)
        assert not self._all

    monkeypatch.setattr(Processes, "end_idle", noted)
    assert main(["diff", "tiny.onnx", "-p", "onnxruntime/cpu", "-p", "cpu/jit", "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)["rows"]
    assert rows[0]["own_path"]["status"] == "rounding" and rows[0]["own_path"]["way"] == "tiny.onnx"
    assert free == [1, 0], "one process, which ended before the next platform"
    assert rows[1]["own_path"]["detail"].startswith("of a large model the captured graph alone runs")
