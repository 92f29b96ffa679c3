"""Direct calls: the call of each runtime apart from its export, the function itself, and the seconds of both sides."""

import ast
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch

from mindgap.graph import MindgapError
from mindgap.own_path.program_run import function_of
from mindgap.platforms.pytorch.device.devices import TorchDevice
from mindgap.platforms.pytorch.script import runner_on_cpu
from mindgap.platforms.registry import canonical
from mindgap.platforms.script_runner import ScriptRunner, call_apart, read_runner
from mindgap.sources.program import Built
from mindgap.sources.weights.tensor_registry import TensorRegistry
from mindgap_studies.porting_runs.call_times import hold_on_one_processor, seconds_in_turn
from mindgap_studies.porting_runs.direct_calls import EagerTarget, bare_call, measured
from mindgap_studies.porting_runs.direct_client import device_of
from mindgap_studies.porting_runs.isolated_call import CallLimits, run_isolated
from mindgap_zoo.operator_samples.sample_call import sample_of

SOURCES = Path(__file__).parents[3] / "src"
#: What loads the model with each call: the toolkit of Rockchip, which is in a `with`.
NOT_APART = {"rknn"}

RUNNER = """def run(model, fresh):
    loaded = model.exported(fresh())
    found = loaded(*fresh())
    return [each + 1 for each in found]"""


NO_RUNNER = ScriptRunner("def run(model, fresh):\n    raise AssertionError")


class Exported:
    exports = calls = 0

    def exported(self, given: Any) -> Callable[..., Any]:
        self.exports += 1
        return self.called

    def called(self, *given: Any) -> Any:
        self.calls += 1
        return given


def test_what_is_exported_once_is_called_many_times() -> None:
    divided, model = call_apart(ScriptRunner(RUNNER)), Exported()
    assert divided is not None
    prepare: Any = function_of(divided)
    call = prepare(model, lambda: (torch.ones(2),))
    assert (model.exports, model.calls) == (1, 0)
    assert torch.equal(call()[0], torch.full((2,), 2.0)) and call() and (model.exports, model.calls) == (1, 2)


@pytest.mark.parametrize("file", sorted(SOURCES.glob("*/**/run.py")), ids=lambda file: file.parent.name)
def test_the_call_of_each_runtime_can_be_taken_apart(file: Path) -> None:
    divided = call_apart(read_runner(file, ()))
    assert (divided is None) == (file.parent.name in NOT_APART)
    if divided is not None:
        call = divided.run.partition("    def call():")[2]
        assert not re.search(r"\b(export|convert|compile|trace|build|load\w*|InferenceSession)\(", call)
        statements = next(each for each in ast.parse(divided.run).body if isinstance(each, ast.FunctionDef)).body
        assert [each for each in statements if isinstance(each, ast.Return)] == [statements[-1]]


def test_the_source_is_the_public_function_itself() -> None:
    tensors = [torch.ones(2), torch.zeros(2)]
    call = bare_call(sample_of(torch.cat, (tensors,), {"dim": 0}, "input").built(TensorRegistry()))
    assert call.func is torch.cat and torch.equal(call(), torch.cat(tensors))
    module = torch.nn.ReLU()
    assert bare_call(Built(module, (tensors[0],), {}, TensorRegistry())).func is module


def test_the_first_call_of_the_target_holds_its_export(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Linear(3, 3), (torch.ones(2, 3),)\n"
    )
    runner = runner_on_cpu("run_traced", {})
    divided = None if runner is None else call_apart(runner)
    assert divided is not None
    found = measured(f"{tmp_path / 'model.py'}:make", 3, divided)
    assert len(found["source"]) == len(found["target"]) == 3 and min(*found["source"], *found["target"]) > 0
    assert found["target_first"] > 5 * median(found["target"])


def test_eager_mode_is_as_fast_as_itself(tmp_path: Path) -> None:
    """The way of a device's eager mode, with the host as the device."""
    (tmp_path / "model.py").write_text(
        "import torch\ndef make():\n    return torch.cat, ([torch.ones(5, 5), torch.ones(5, 5)],), {'dim': 1}\n"
    )
    found = measured(f"{tmp_path / 'model.py'}:make", 9, NO_RUNNER, eager_on="cpu")
    assert 0.5 < median(after / before for before, after in zip(found["source"], found["target"], strict=True)) < 3


def test_eager_mode_of_a_device_has_its_operands_there() -> None:
    meta, linear = TorchDevice("cpu", "meta", "none"), torch.nn.Linear(3, 2)
    for call in (
        partial(torch.cat, [torch.ones(2), torch.ones(2)], dim=0), partial(torch.ones, 3, device="cpu"),
        partial(linear, torch.ones(1, 3)),
    ):  # fmt: skip
        target = EagerTarget(call, meta)
        target.first()
        assert target.later()().device.type == "meta"
    assert linear.weight.device.type == "cpu"
    elsewhere = EagerTarget(partial(torch.ones, 3), meta)
    elsewhere.first()
    with pytest.raises(MindgapError, match="a tensor on cpu, not on meta"):
        elsewhere.later()


@pytest.mark.parametrize(
    ("platform", "found"),
    [
        ("cuda/eager", (True, "cuda")), ("rocm/eager", (True, "rocm")), ("xla/eager@pjrt=tpu", (True, "xla")),
        ("cuda/inductor", (True, "")), ("onnxruntime/cuda", (True, "")), ("cpu/eager", (False, "")),
        ("cpu/jit", (False, "")), ("openvino/cpu", (False, "")), ("onnx/reference", (False, "")),
    ],
)  # fmt: skip
def test_calls_of_devices_are_measured_by_the_clock(platform: str, found: tuple[bool, str]) -> None:
    assert device_of(canonical(platform)) == found


def test_a_target_of_three_times_the_work_is_three_times_as_slow() -> None:
    source, target = seconds_in_turn(lambda: sum(range(20_000)), lambda: sum(range(60_000)), 9)
    assert 2 < median(after / before for before, after in zip(source, target, strict=True)) < 4.5


def test_a_process_is_held_on_one_processor() -> None:
    def held(tell: Callable[[Any], None]) -> None:
        hold_on_one_processor(7)
        tell({"processors": len(os.sched_getaffinity(0))})

    assert run_isolated(held, CallLimits()).told == [{"processors": 1}]


PROGRAMS = """import torch


def program(number):
    def make():
        return (lambda x: torch.sin(x) * number), (torch.ones(3),)

    return make


"""


@pytest.mark.nightly
def test_each_function_is_compiled_however_many_there_were_before(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAMS + "\n".join(f"make{n} = program({n})" for n in range(1, 13)) + "\n")
    divided = call_apart(ScriptRunner(
        "def run(model, fresh):\n"
        "    model.program = torch.compile(model.program, backend='eager')\n"
        "    return model(*fresh())"
    ))  # fmt: skip
    assert divided is not None
    firsts = [measured(f"{tmp_path / 'model.py'}:make{n}", 1, divided)["target_first"] for n in range(1, 13)]
    # A function that torch.compile hands back to eager mode takes less than 0.2 ms.
    assert min(firsts) > 1e-3
