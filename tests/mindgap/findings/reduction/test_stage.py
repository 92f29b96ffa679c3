"""The stage at fault: findings of real runtimes, a fault planted in Inductor, and the decisions of each platform."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mindgap.findings.reduction.stage import StageAtFault, StageRuns, stage_at_fault
from mindgap.findings.script.script_platform import ScriptPlatform, runner_of
from mindgap.graph import Graph, TensorStore
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.environments.installation import adopt, create
from mindgap.platforms.name import parse
from mindgap.platforms.onnx.stages import onnxruntime_stage, provider_stage
from mindgap.platforms.openvino.stages import openvino_stage
from mindgap.platforms.pytorch.device.availability import compiler_present
from mindgap.platforms.pytorch.stages import eager_stage, inductor_stage, jit_stage
from mindgap.platforms.stages import Shown, Stage
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Outcome
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.executorch.stages import executorch_stage
from mindgap_runtimes.iree.stages import iree_stage
from mindgap_runtimes.jax.stages import jax_stage
from mindgap_runtimes.litert.stages import litert_stage
from mindgap_runtimes.ncnn.stages import ncnn_stage
from mindgap_runtimes.tinygrad.stages import tinygrad_stage
from mindgap_runtimes.tvm.stages import tvm_stage
from mindgap_runtimes.xla.stages import xla_stage

Program = Callable[..., Any]
EMPTY = Graph((), (), ())


def stage_of(program: Program, args: tuple[torch.Tensor, ...], platform: str, context: RunContext) -> StageAtFault:
    graph = capture(program, args, tensors=context.tensors)
    row = GraphComparison(context, "case", graph).row(parse(platform))
    assert row.finding, row
    return stage_at_fault(context, graph, row)


def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """ONNX Runtime moves the factor behind the matrix product, which overflows without it."""
    return (x * 1e-38) @ y


def twice_mean(index: torch.Tensor, source: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
    return torch.scatter_reduce(into, 0, index, source, "mean", include_self=False)


ONNX: Mapping[str, tuple[Program, tuple[torch.Tensor, ...], Stage]] = {
    "optimiser": (scaled, (torch.full((2, 2), 1e38), torch.full((2, 2), 1e10)), "graph optimiser"),
    "exporter": (torch.special.erfcx, (torch.tensor([5.0]),), "exporter"),
    "exporter_raises": (torch.amax, (torch.tensor(0.0),), "exporter"),
    "decomposition_raises": (
        lambda x, y: torch.diagonal_scatter(x, y, 0, 1, 0), (torch.zeros(1, 1), torch.zeros(1)), "decomposition",
    ),
    "kernel_raises": (
        lambda x: torch.nn.functional.pad(x, [0, 0, 0, 0], "circular"), (torch.empty(0, 3, 3, 3),), "kernel",
    ),
}  # fmt: skip

OPENVINO: Mapping[str, tuple[Program, tuple[torch.Tensor, ...], Stage]] = {
    "front_end": (torch.log1p, (torch.tensor([-0.007]),), "unknown"),
    "front_end_raises": (lambda x: torch.max(x, 0), (torch.tensor(0.0),), "front end"),
    "plugin": (lambda x: torch.amin(x, [0]), (torch.tensor([math.inf]),), "device plugin"),
}


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ONNX)
def test_stages_of_onnx_runtime(name: str, context: RunContext) -> None:
    pytest.importorskip("onnxruntime")
    program, args, stage = ONNX[name]
    found = stage_of(program, args, "onnxruntime/cpu", context)
    assert found.stage == stage and found.evidence, found


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("front_end", marks=pytest.mark.nightly), "front_end_raises", "plugin"])
def test_stages_of_openvino(name: str, context: RunContext) -> None:
    pytest.importorskip("openvino")
    program, args, stage = OPENVINO[name]
    found = stage_of(program, args, "openvino/cpu@precision=f32", context)
    assert found.stage == stage and found.evidence, found


@pytest.mark.slow
def test_torchscript_without_optimisation_fails_too(context: RunContext) -> None:
    found = stage_of(lambda x: torch.fill(x, False), (torch.zeros(1),), "cpu/jit", context)
    assert found == StageAtFault("interpreter", ("cpu/jit@opt=off fails in the same way.",))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_platform_in_an_environment(context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path))
    adopt("here", sys.executable, lambda line: None)
    found = stage_of(lambda x: torch.fill(x, False), (torch.zeros(1),), "cpu/jit@env=here", context)
    assert found == StageAtFault("interpreter", ("cpu/jit@env=here,opt=off fails in the same way.",))


def test_a_step_between_runs_in_the_environment_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layered environment that has installed none of its packages has the step of mindgap's own."""
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path))
    adopt("here", sys.executable, lambda line: None)
    create("layer", [], None, isolated=False, say=lambda line: None)
    place = "mindgap.platforms.onnx.intermediate:DECOMPOSED"

    def beside(side: str, name: str = place) -> str:
        row = Row("m", parse(side), "ok", "discrepant", blame="platform")
        runs = StageRuns(RunContext(lambda job: Outcome(job.platform, "d", "ok"), RunSettings()), EMPTY, row)
        return runs.in_same_environment(name)

    assert beside("onnxruntime/cpu") == place
    assert beside("onnxruntime/cpu@env=here") == f"{place}@env=here"
    assert beside("onnxruntime/cpu@env=here", f"{place}@a=b") == f"{place}@a=b,env=here"
    assert beside("onnxruntime/cpu@env=layer") == place


#: Gives Inductor a wrong decomposition of `hardsigmoid`, as soon as it is imported.
PLANTED = """
import importlib.abc, importlib.util, sys

class Planting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch._inductor.decomposition":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            import torch
            module.decompositions[torch.ops.aten.hardsigmoid.default] = lambda x: torch.clamp(x / 6 + 0.25, 0, 1)

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Planting())
"""


@pytest.mark.nightly
@pytest.mark.skipif(not compiler_present().available, reason="there is no C++ compiler")
def test_a_wrong_decomposition_of_inductor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with WorkerPool(["cpu/eager"], tensors=TensorStore(tmp_path), busy=1, grows=True) as pool:
        context = RunContext(pool.run, RunSettings(), TensorStore(tmp_path), pool.describe)
        found = stage_of(torch.ops.aten.hardsigmoid.default, (torch.linspace(-2, 2, 20),), "cpu/inductor", context)
    assert found.stage == "decomposition"
    assert found.evidence == (
        "cpu/inductor@stage=captured gives the right result.",
        "cpu/inductor@stage=functional gives the right result.",
        "cpu/inductor@stage=decomposed gives the same bits.",
    )


@dataclass
class Answers:
    """Stands for the runs of a finding whose stage no public case here has. `known`: part of a name -> the answer."""

    side: str
    known: Mapping[str, Shown]
    fails: bool = False
    same_bits: bool = True
    status: str = "ok"
    structural: bool = False

    def __post_init__(self) -> None:
        self.asked: list[str] = []
        self.evidence: list[str] = []
        self.facts: Mapping[str, Any] = {}
        self.fails_at_load = self.status == "compile_error"

    @property
    def name(self) -> Any:
        return parse(self.side)

    def with_options(self, **options: str) -> str:
        return f"{self.name.device_mode}@{','.join(f'{k}={v}' for k, v in options.items())}"

    def in_same_environment(self, platform: str) -> str:
        return platform

    def note(self, sentence: str) -> None:
        self.evidence.append(sentence)

    def ask(self, platform: str, words: str = "") -> Shown:
        self.asked.append(platform)
        return next((answer for part, answer in self.known.items() if part in platform), "shows")


RIGHT_BEFORE = {"stage=": "right"}
LOADING: Mapping[str, Any] = {"fails": True, "status": "compile_error"}
RUNNING: Mapping[str, Any] = {"fails": True, "status": "runtime_error"}


@pytest.mark.parametrize(
    ("decide", "side", "known", "more", "stage"),
    [
        (inductor_stage, "cpu/inductor", {"stage=captured": "shows"}, {}, "graph capture"),
        (inductor_stage, "cpu/inductor", {"stage=functional": "shows", **RIGHT_BEFORE}, {}, "functionalisation"),
        (inductor_stage, "cpu/inductor", {**RIGHT_BEFORE, "off=passes": "right"}, {}, "graph pass"),
        (inductor_stage, "cpu/inductor", {**RIGHT_BEFORE, "off=vectors": "right"}, {}, "vectorised code generation"),
        (inductor_stage, "cpu/aotinductor", {**RIGHT_BEFORE, "off=fusion": "right"}, {}, "fusion"),
        (inductor_stage, "cpu/aotinductor", {**RIGHT_BEFORE, "off=generated": "right"}, {}, "code generation"),
        (inductor_stage, "cpu/inductor", RIGHT_BEFORE, {}, "unknown"),
        (jit_stage, "cpu/jit", {"opt=off": "right"}, {}, "executor optimisation"),
        (eager_stage, "cpu/eager", {"onednn=off": "right"}, {}, "oneDNN kernel"),
        (eager_stage, "cpu/eager", {"isa=default": "right"}, {}, "kernel (ISA tier)"),
        (eager_stage, "cpu/eager@isa=avx2", {}, {}, "kernel"),
        (eager_stage, "cpu/eager", {"isa=": "unclear"}, {}, "unknown"),
        (executorch_stage, "executorch/cpu", {"delegate=none": "right"}, {}, "delegate"),
        (executorch_stage, "executorch/cpu@delegate=none", {}, {}, "front end"),
        (executorch_stage, "executorch/cpu", {":EDGE": "right"}, {}, "kernel"),
        (executorch_stage, "executorch/cpu", {":EDGE": "unclear"}, {}, "unknown"),
        (executorch_stage, "executorch/cpu", {}, LOADING, "front end"),
        (executorch_stage, "executorch/cpu", {"TRANSLATED@delegate=none": "right"}, LOADING, "delegate"),
        (executorch_stage, "executorch/cpu@delegate=none", {"TRANSLATED": "right"}, LOADING, "runtime load"),
        (executorch_stage, "executorch/cpu", {"cpu@delegate": "shows"}, RUNNING, "kernel"),
        (litert_stage, "litert/cpu", {"run=": "right", "delegate=none": "right"}, {}, "delegate"),
        (litert_stage, "litert/cpu", {}, {}, "front end"),
        (litert_stage, "litert/cpu", {"run=values": "right"}, {}, "compiler"),
        (litert_stage, "litert/cpu", {"run=": "unclear"}, {}, "unknown"),
        (litert_stage, "litert/cpu", {"stop=convert": "shows", "TRANSLATED": "right"}, LOADING, "graph compiler"),
        (litert_stage, "litert/cpu", {"TRANSLATED": "right"}, LOADING, "runtime load"),
        (litert_stage, "litert/cpu", {"TRANSLATED": "right"}, RUNNING, "kernel"),
        (jax_stage, "jax/cpu", {}, {}, "front end"),
        (jax_stage, "jax/cpu", {":TRANSLATED": "unclear"}, {}, "unknown"),
        (jax_stage, "jax/cpu", {":TRANSLATED": "right", "opt=off": "right"}, {}, "code generation"),
        (jax_stage, "jax/cpu", {":TRANSLATED": "right"}, {}, "compiler"),
        (jax_stage, "jax/cpu", {}, LOADING, "front end"),
        (jax_stage, "jax/cpu", {":TRANSLATED": "right"}, LOADING, "compiler"),
        (xla_stage, "xla/eager", {"run=values": "right"}, {}, "compiler"),
        (xla_stage, "xla/eager", {}, {"structural": True}, "front end"),
        (xla_stage, "xla/eager", {}, RUNNING, "front end"),
        (xla_stage, "xla/eager", {":TRANSLATED": "right"}, RUNNING, "compiler"),
        (tvm_stage, "tvm/cpu", {}, {}, "unknown"),
        (tvm_stage, "tvm/cpu", {"opt=off": "right"}, {}, "code generation"),
        (tvm_stage, "tvm/cpu", {}, {"structural": True}, "front end"),
        (tvm_stage, "tvm/cpu", {":TRANSLATED": "right"}, {"structural": True}, "graph compiler"),
        (tvm_stage, "tvm/cpu", {"stop=import": "right"}, LOADING, "graph compiler"),
        (tvm_stage, "tvm/cpu", {":TRANSLATED": "right"}, LOADING, "code generation"),
        (tvm_stage, "tvm/cpu", {}, {**LOADING, "same_bits": False}, "unknown"),
        (iree_stage, "iree/cpu", {":DECOMPOSED": "right", "vmvx": "right"}, {}, "code generation"),
        (iree_stage, "iree/cpu", {":DECOMPOSED": "right"}, {}, "unknown"),
        (iree_stage, "iree/cpu", {}, {}, "decomposition"),
        (iree_stage, "iree/cpu", {"stop=import": "right"}, LOADING, "front end"),
        (iree_stage, "iree/cpu", {"stop=import": "right", "stop=input": "right"}, LOADING, "graph compiler"),
        (tinygrad_stage, "tinygrad/cpu", {"onnx/reference": "right"}, {}, "unknown"),
        (tinygrad_stage, "tinygrad/cpu", {"onnx/reference": "right", "opt=off": "right"}, {}, "code generation"),
        (tinygrad_stage, "tinygrad/cpu", {"onnx/reference": "right"}, {"structural": True}, "front end"),
        (
            tinygrad_stage, "tinygrad/cpu", {"onnx/reference": "right", ":TRANSLATED": "right"}, {"structural": True},
            "compiler",
        ),
        (tinygrad_stage, "tinygrad/cpu", {"onnx/reference": "right"}, RUNNING, "front end"),
        (provider_stage, "onnxruntime/openvino", {"delegate=none": "right"}, {}, "delegate"),
        (
            provider_stage, "onnxruntime/openvino@precision=bf16",
            {"precision": "unclear", "delegate=none": "right"}, {}, "delegate",
        ),
        (
            provider_stage, "onnxruntime/openvino",
            {"delegate=none": "unclear", "onnx/reference": "right"}, {}, "delegate",
        ),
        (
            provider_stage, "onnxruntime/openvino", {"opt=off": "right"}, {"same_bits": False},
            "graph optimiser",
        ),
        (provider_stage, "onnxruntime/openvino@delegate=none", {"onnx/reference": "unclear"}, {}, "exporter"),
        (ncnn_stage, "ncnn/cpu", {"precision=f32": "right"}, {}, "front end"),
        (ncnn_stage, "ncnn/cpu@precision=f32", {"opt=off": "right"}, {}, "kernel"),
        (ncnn_stage, "ncnn/cpu@opt=off,precision=f32", {"opt=off": "right"}, {}, "front end"),
        (ncnn_stage, "ncnn/cpu", {"NDERSTOOD": "right"}, {}, "unknown"),
        (ncnn_stage, "ncnn/cpu", {}, LOADING, "front end"),
        (ncnn_stage, "ncnn/cpu", {":TRANSLATED": "right"}, LOADING, "runtime load"),
        (openvino_stage, "openvino/cpu", {"precision=f32": "right"}, {}, "graph compiler"),
        (
            openvino_stage, "openvino/cpu@precision=f32", {":CONVERTED": "unclear", ":DECOMPOSED": "right"}, {},
            "unknown",
        ),
        (openvino_stage, "openvino/cpu@precision=f32", {}, {}, "decomposition"),
        (openvino_stage, "openvino/cpu@precision=f32", {":CONVERTED": "right"}, {}, "device plugin"),
        (
            openvino_stage, "openvino/cpu@precision=f32", {":CONVERTED": "unclear"},
            {"fails": True, "status": "compile_error"}, "graph compiler",
        ),
        (
            openvino_stage, "openvino/cpu@frontend=onnx,precision=f32",
            {"onnx/reference": "right", ":CONVERTED": "right"}, {}, "device plugin",
        ),
        (openvino_stage, "openvino/cpu@frontend=onnx,precision=f32", {"onnx/reference": "right"}, {}, "unknown"),
        (onnxruntime_stage, "onnxruntime/cpu", {"onnx/reference": "unclear"}, {}, "exporter"),
        (onnxruntime_stage, "onnxruntime/cpu", {"onnx/reference": "unclear"}, {"same_bits": False}, "unknown"),
        (
            onnxruntime_stage, "onnxruntime/cpu", {"onnx/reference": "right"},
            {"fails": True, "status": "compile_error"}, "runtime load",
        ),
    ],
)  # fmt: skip
def test_decisions(
    decide: Callable[[Any], Stage], side: str, known: Mapping[str, Shown], more: Mapping[str, Any], stage: Stage
) -> None:
    assert decide(Answers(side, known, **more)) == stage


def test_a_platform_without_switches_is_unknown_with_the_reason() -> None:
    row = SimpleNamespace(blame="platform", platform=parse("faulty/eager"))
    context = SimpleNamespace(settings=RunSettings())
    found = stage_at_fault(context, None, row)  # type: ignore[arg-type]
    assert found == StageAtFault("unknown", ("No option of faulty/eager switches a stage off.",))


@dataclass
class Failing:
    """A backend that says it can tell more than it can."""

    def stage_at_fault(self, runs: StageRuns) -> Stage:
        raise KeyError("no such option")

    def script_runner(self, options: Mapping[str, str]) -> None:
        raise ValueError("no such function")


def test_a_backend_that_fails_to_tell_more_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindgap.findings.reduction.stage.registered", lambda name: Failing())
    monkeypatch.setattr("mindgap.findings.script.script_platform.registered", lambda name: Failing())
    context = RunContext(lambda job: Outcome(job.platform, "d", "ok"), RunSettings())
    found = stage_at_fault(context, EMPTY, Row("m", parse("tiny/numpy"), "ok", "discrepant", blame="platform"))
    assert found.stage == "unknown" and "KeyError" in found.evidence[0]
    assert runner_of(ScriptPlatform("tiny/numpy")) is None
