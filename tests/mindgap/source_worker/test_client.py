"""A user's code may exit, crash or hang: it ends its own process, and the error names the source and the line."""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from onnx import helper

from mindgap.graph import Graph, MindgapError, TensorStore, digest
from mindgap.platforms.environments import EnvironmentProblem
from mindgap.platforms.environments.installation import adopt
from mindgap.source_worker.client import FileUntranslated, ProgramRefused, SourceClient
from onnx_files.test_file import saved, value

MODELS = """
import ctypes, os, sys, torch

def exits():
    sys.exit(0)  # line 5

def leaves():
    os._exit(0)  # line 8

def crashes():
    ctypes.string_at(0)  # line 11

def loops():
    while True: pass  # line 14

class Calls(torch.nn.Module):
    def __init__(self, called):
        super().__init__()
        self.called = called

    def forward(self, x):
        self.called()
        return x + 1

def exits_inside(): return Calls(exits), (torch.ones(3),)

def leaves_inside(): return Calls(leaves), (torch.ones(3),)

def crashes_inside(): return Calls(crashes), (torch.ones(3),)

class Noted(torch.nn.Linear):
    def __init__(self):
        super().__init__(3, 2)
        with open(os.path.join(os.path.dirname(__file__), "calls"), "a") as calls:
            calls.write(".")

def built(): return Noted(), (torch.ones(1, 3),)

def three():
    print("three models")
    return [(torch.nn.ReLU(), (torch.ones(n),)) for n in (1, 2, 3)]
"""


@pytest.fixture
def client(tmp_path: Path) -> Generator[SourceClient]:
    (tmp_path / "models.py").write_text(MODELS)
    with SourceClient(TensorStore(tmp_path / "tensors"), 60.0) as client:
        yield client


def test_code_that_ends_its_process_is_an_error_with_the_line_and_the_next_source_goes_on(
    client: SourceClient, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "models.py"
    three = client.open(f"{file}:three")
    with pytest.raises(MindgapError, match=r"exits: it raised SystemExit: 0 \(line 5\)"):
        client.open(f"{file}:exits")
    with pytest.raises(MindgapError, match=r"leaves: exited with status 0 while opening it \(models.py:8\)"):
        client.open(f"{file}:leaves")
    with pytest.raises(MindgapError, match=r"crashes: killed by SIGSEGV while opening it \(models.py:11\)"):
        client.open(f"{file}:crashes")
    says = {
        "exits": r"itself raises SystemExit: 0 \(models.py:5\)",
        "leaves": r"status 0 while capturing it \(models.py:8",
        "crashes": r"SIGSEGV while capturing it \(models.py:11",
    }
    for name, words in says.items():
        opened = client.open(f"{file}:{name}_inside")
        with pytest.raises(MindgapError, match=words):
            client.capture(opened, 0)
    # The process that held these has died several times since.
    assert [client.capture(three, index).inputs[0].spec.shape for index in range(3)] == [(1,), (2,), (3,)]
    assert "three models" in capfd.readouterr().err


def test_a_program_is_built_once_for_its_weights_and_its_capture(client: SourceClient, tmp_path: Path) -> None:
    opened = client.open(f"{tmp_path}/models.py:built")
    assert client.build(opened, 0) == 4 * (3 * 2 + 2)
    assert (tmp_path / "calls").read_text() == "."
    assert len(client.capture(opened, 0).nodes) == 1
    assert (tmp_path / "calls").read_text() == "."


def test_code_that_hangs_is_ended_at_the_deadline(client: SourceClient, tmp_path: Path) -> None:
    with (
        SourceClient(TensorStore(tmp_path / "tensors"), 3.0) as hurried,
        pytest.raises(MindgapError, match=r"loops: no answer within 3 s, while opening it \(models.py:14\)"),
    ):
        hurried.open(f"{tmp_path / 'models.py'}:loops")


CUSTOM = """
import os, torch

library = torch.library.Library("mindgap_reopened", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CPU")

class Refused(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return x[torch.ops.mindgap_reopened.twice(self.layer(x)) > 0]

class Dies(Refused):
    def forward(self, x):
        y = self.layer(x)
        if type(x) is torch.Tensor:
            os._exit(3)
        return y[y > 0]

def dies(): return Dies(), (torch.ones(3),)

def refused(): return Refused(), (torch.ones(3),)

def vision():
    import torchvision  # its compiled half may not fit this PyTorch
    return torchvision.models.squeezenet1_1(), (torch.ones(1, 3, 32, 32),)
"""


def test_a_file_that_defines_operators_is_opened_again_for_its_submodules(client: SourceClient, tmp_path: Path) -> None:
    (tmp_path / "custom.py").write_text(CUSTOM)
    opened = client.open(f"{tmp_path}/custom.py:refused")
    with pytest.raises(MindgapError, match=r"custom.py:14.*size of what.*; these submodules.*layer \(Linear, 1 node,"):
        client.capture(opened, 0)
    part = client.open(f"{tmp_path}/custom.py:refused?inside=layer")
    assert [node.op for node in client.capture(part, 0).nodes] == ["aten.linear.default"]


def test_a_crash_in_the_search_for_submodules_leaves_the_reason(client: SourceClient, tmp_path: Path) -> None:
    (tmp_path / "custom.py").write_text(CUSTOM)
    with pytest.raises(
        MindgapError, match=r"custom.py:21.*size of what aten.index.Tensor returns[^;]*; --path-taken captures[^;]*$"
    ):
        client.capture(client.open(f"{tmp_path}/custom.py:dies"), 0)
    part = client.open(f"{tmp_path}/custom.py:dies?inside=layer")
    assert len(client.capture(part, 0).nodes) == 1


def test_a_file_may_import_torchvision(client: SourceClient, tmp_path: Path) -> None:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    (tmp_path / "custom.py").write_text(CUSTOM)
    assert len(client.capture(client.open(f"{tmp_path}/custom.py:vision"), 0).nodes) > 20


@pytest.mark.nightly
def test_a_source_is_captured_in_another_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's interpreter runs the user's code, and the graph is the same."""
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    (tmp_path / "model.py").write_text(
        "import os, torch\n"
        "def make():\n"
        "    open(os.path.join(os.path.dirname(__file__), 'ran'), 'w').write(os.environ.get('MARK', ''))\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Linear(3, 2), (torch.ones(1, 3),)\n"
    )
    # An interpreter that can be told from mindgap's own.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nMARK=environment exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    where = adopt("user", str(python), lambda line: None)
    tensors = TensorStore(tmp_path / "tensors")
    source = f"{tmp_path}/model.py:make"
    graphs: list[Graph] = []
    for there in (where, None):
        with SourceClient(tensors, 120.0, where=there) as client:
            graphs.append(client.capture(client.open(source), 0))
        assert (tmp_path / "ran").read_text() == ("environment" if there else "")
    assert digest(graphs[0]) == digest(graphs[1])


def test_an_environment_without_pytorch_cannot_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    facts = {"python": "3.12.1", "implementation": "CPython", "machine": platform.machine(), "prefix": "/"}
    python = tmp_path / "python"
    missing = 'case "$*" in *torch*) m=\'"torch"\';; esac'
    python.write_text(f"#!/bin/sh\n{missing}\necho '{json.dumps(facts)[:-1]}, \"missing\": ['\"$m\"']}}'\n")
    python.chmod(0o755)
    where = adopt("bare", str(python), lambda line: None)
    with pytest.raises(EnvironmentProblem, match="environment bare lacks torch: install it there"):
        SourceClient(TensorStore(tmp_path / "tensors"), 10.0, where=where)


def test_a_file_without_a_translation_is_told_from_other_refusals(client: SourceClient, tmp_path: Path) -> None:
    path = saved(
        tmp_path / "unknown.onnx", [helper.make_node("Fold", ["x"], ["y"], "f", domain="com.example")],
        [value("x", [3, 2])], [value("y", None)], domains={"com.example": 1},
    )  # fmt: skip
    with pytest.raises(FileUntranslated, match=r"no translation of operator com\.example\.Fold"):
        client.capture(client.open(str(path)), 0)
    (tmp_path / "custom.py").write_text(CUSTOM.replace("reopened", "told_apart"))
    with pytest.raises(ProgramRefused, match="size of what") as other:
        client.capture(client.open(f"{tmp_path}/custom.py:refused"), 0)
    assert type(other.value) is ProgramRefused
