"""What one program leaves in its process reaches no other program: each is as it is alone."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import mindgap
from mindgap.aten.torch_private import process_state
from mindgap.graph import MindgapError, TensorStore
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.name import parse
from mindgap.source_worker.client import SourceClient

from . import raising

FILE = str(Path(raising.__file__))
JIT = parse("cpu/jit")
NAMES = ["vmapped", "traced", "made", *raising.LEAVES]
#: Here a program is made by its user.
NAMES_HERE = [name for name in NAMES if name != "made"]


def _names(all_of_them: bool) -> list[str]:
    return NAMES if all_of_them else ["vmapped", "level", "inference", "dtype"]


@pytest.mark.parametrize("all_of_them", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_program_runs_by_its_own_way_as_it_does_alone(all_of_them: bool) -> None:
    with OwnPathClient(60.0) as client:
        alone = UserProgram(client, f"{FILE}:plain").run(JIT)
        assert alone is not None and alone.outputs is not None
        for name in _names(all_of_them):
            try:
                left = UserProgram(client, f"{FILE}:{name}").run(JIT)
                assert left is not None and left.outputs is None, name
            except MindgapError:
                pass
            after = UserProgram(client, f"{FILE}:plain").run(JIT)
            assert after is not None and after.outputs is not None, (name, after)
            assert after.outputs[0].tobytes() == alone.outputs[0].tobytes(), name
            assert after.eager[0].tobytes() == alone.eager[0].tobytes(), name


def test_a_process_whose_inference_mode_a_program_has_entered_is_to_be_replaced() -> None:
    guards: list[torch.inference_mode] = []
    with process_state.restored() as left:
        with pytest.raises(ValueError, match="left"), process_state.left_behind():
            guards.append(torch.inference_mode())
            guards[0].__enter__()
            raise ValueError("left")
        assert not torch.is_inference_mode_enabled()
    assert left == ["inference mode"]


def test_variables_of_the_compiler_that_a_file_sets_act_as_they_do_without_mindgap(tmp_path: Path) -> None:
    file = tmp_path / "frozen.py"
    file.write_text(
        "import os\nos.environ['TORCHINDUCTOR_FREEZING'] = '1'\nimport torch, torch._inductor.config as config\n"
        "class Model(torch.nn.Module):\n    def forward(self, x): return x + float(config.freezing)\n"
        "def make(): return Model(), (torch.zeros(2),)\n"
    )
    with OwnPathClient(60.0) as client:
        frozen, plain = UserProgram(client, f"{file}:make").run(JIT), UserProgram(client, f"{FILE}:plain").run(JIT)
    assert frozen is not None and frozen.outputs is not None and frozen.outputs[0].tolist() == [1.0, 1.0]
    assert plain is not None and plain.outputs is not None


def test_a_program_goes_to_openvino_without_telemetry(tmp_path: Path) -> None:
    file = tmp_path / "quiet.py"
    file.write_text(
        "import sys, torch\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x): return x + float(sys.modules.get('openvino_telemetry', '') is None)\n"
        "def make(): return Model(), (torch.zeros(2),)\n"
    )
    with OwnPathClient(60.0) as client:
        quiet = UserProgram(client, f"{file}:make").run(parse("openvino/cpu"))
    assert quiet is not None and quiet.outputs is not None and quiet.outputs[0].tolist() == [1.0, 1.0]


def test_what_the_c_library_says_of_an_abort_is_the_reason_of_the_run() -> None:
    with OwnPathClient(60.0) as client:
        left = UserProgram(client, f"{FILE}:frees_wrongly").run(JIT)
    assert left is not None and left.outputs is None and left.line.startswith("raising.py:")
    assert "SIGABRT" in left.reason and "(): invalid pointer" in left.reason, left.reason


@pytest.mark.parametrize("all_of_them", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_program_is_captured_as_it_is_alone(tmp_path: Path, all_of_them: bool) -> None:
    with SourceClient(TensorStore(tmp_path), 60.0) as client:
        alone = client.capture(client.open(f"{FILE}:plain"), 0)
        for name in _names(all_of_them):
            try:
                client.capture(client.open(f"{FILE}:{name}"), 0)
            except MindgapError as error:
                assert name not in ("vmapped", "traced"), (name, error)
            assert client.capture(client.open(f"{FILE}:plain"), 0) == alone, name


def test_a_file_that_sets_a_default_keeps_it_and_no_other_file_gets_it(tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text(
        "import torch\ntorch.set_default_dtype(torch.float64)\n"
        "def make(): return torch.nn.Linear(2, 2), (torch.ones(1, 2),)\n"
    )
    with SourceClient(TensorStore(tmp_path / "store"), 60.0) as client:
        double, plain = client.open(f"{tmp_path}/double.py:make"), client.open(f"{FILE}:plain")
        client.build(double, 0)
        assert client.capture(plain, 0).inputs[0].spec.dtype == "float32"
        assert {each.spec.dtype for each in client.capture(double, 0).inputs} == {"float64"}


@pytest.mark.parametrize(
    "names",
    [["dtype", "level", "inference", "vmapped"], pytest.param(NAMES_HERE, marks=pytest.mark.nightly)],
    ids=["some", "all"],
)
def test_a_program_of_the_python_api_leaves_this_process_as_it_was(names: list[str]) -> None:
    before, within = process_state.settings(), process_state.transformations()
    model, args = raising.plain()
    with mindgap.Session() as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = session.diff(model, args, platforms=["cpu/jit"])
        for name in names:
            try:
                session.diff(*getattr(raising, name)(), platforms=["cpu/jit"])
            except MindgapError as error:
                assert "left" in str(error) or name == "exits", (name, error)
            assert process_state.settings() == before and process_state.transformations() == within, name
            after = session.diff(model, args, platforms=["cpu/jit"])
            assert [row.verdict for row in after.rows] == [row.verdict for row in alone.rows], name
    assert not torch.zeros(1).is_inference() and torch.zeros(1).dtype == torch.float32
