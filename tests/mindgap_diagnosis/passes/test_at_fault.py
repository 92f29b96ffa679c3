"""Which pass brings a fault: by runs of a platform of which the test knows the answer, then of real ones."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from cli.command_line import mindgap
from mindgap.platforms.environments import environments
from mindgap.platforms.name import PlatformName, parse
from mindgap.platforms.stages import Shown
from mindgap_diagnosis.passes.at_fault import pass_at_fault
from mindgap_diagnosis.passes.pass_lists import PASSES


@dataclass
class Runs:
    """Variants of a platform: right where each of `culprits` is left out."""

    name: PlatformName
    culprits: tuple[str, ...]
    option: str = "without"
    fails: bool = False
    structural: bool = False
    same_bits: bool = False
    facts: dict[str, object] = field(default_factory=dict)
    fails_at_load: bool = False
    notes: list[str] = field(default_factory=list)

    def with_options(self, **options: str) -> PlatformName:
        return self.name.with_options(**options)

    def in_same_environment(self, platform: str) -> PlatformName:
        return parse(platform)

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def ask(self, platform: str, words: str | None = "") -> Shown:
        self.notes += [] if words is None else [words or platform]
        left_out = parse(platform).options.get(self.option, "").split("+")
        return "right" if set(self.culprits) <= set(left_out) else "shows"


def test_the_optimizer_of_onnxruntime() -> None:
    runs = Runs(parse("onnxruntime/cpu"), ("GeluFusionL2",))
    line = pass_at_fault(runs, "graph optimiser")
    assert line == "onnxruntime.InferenceSession(…, disabled_optimizers=['GeluFusionL2'])"
    assert runs.notes[-2] == "With GeluFusionL2 and none of the other passes it shows the fault."
    assert pass_at_fault(Runs(parse("onnxruntime/cpu"), ("GeluFusionL2",)), "kernel") == ""


def test_two_rules_that_are_needed_together() -> None:
    line = pass_at_fault(Runs(parse("onnxruntime/cpu"), ("CastElimination", "ConstantFolding")), "graph optimiser")
    assert line.endswith("disabled_optimizers=['CastElimination', 'ConstantFolding'])")


def test_no_pass_by_name() -> None:
    runs = Runs(parse("onnxruntime/cpu"), ("an optimizer that has no name",))
    assert pass_at_fault(runs, "graph optimiser") == ""
    assert "It stays without the" in runs.notes[-1]


def test_passes_and_switches_of_inductor() -> None:
    assert (
        pass_at_fault(Runs(parse("cpu/inductor"), ("pass_pattern_1",)), "graph pass")
        == 'torch._inductor.config.disabled_passes = "pass_pattern_1"'
    )
    assert (
        pass_at_fault(Runs(parse("cpu/inductor"), ("vectors",), option="off"), "vectorised code generation")
        == "torch._inductor.config.cpp.simdlen = 1"
    )


def test_names_are_those_of_the_installed_versions() -> None:
    names = PASSES["onnxruntime/cpu"].names(parse("onnxruntime/cpu"))
    assert {"ConstantFolding", "BiasGeluFusion", "QDQSelectorActionTransformer", "CastElimination"} <= {*names}
    assert len(names) == len({*names}) < 200
    passes = PASSES["cpu/inductor"].names(parse("cpu/inductor"))
    assert {"pass_pattern_0", "remove_noop_ops", "constant_fold_uniform_value"} <= {*passes}
    assert "stable_sort" not in passes
    # Of this version: rules that earlier ones have, one that a setting switches on, what no setting leaves out.
    assert not {"ShapeToInitializer", "CastChainElimination", "MemcpyTransformer"} & {*names}
    assert {each for each in passes if each.startswith("pass_pattern_")} == {f"pass_pattern_{i}" for i in range(3)}


def test_every_rule_of_the_version_is_known() -> None:
    """With a rule that is not listed, nothing tells which of the listed ones the version lacks."""
    code = "from mindgap.platforms.onnxruntime import optimizers as o; print(o._rules_ran(o._RULES))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("platform", "name", "nearest"),
    [
        ("onnxruntime/cpu", "ConstantFolding+gelufusion", "GeluFusionL2"),
        ("cpu/inductor", "pass_pattern_7", "pass_pattern_2"),
    ],
)
def test_a_name_that_the_runtime_lacks_is_refused(platform: str, name: str, nearest: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    ran = mindgap("diff", "model.py:alpha", "-p", f"{platform}@without={name}", cwd=tmp_path)
    line, *more = [each for each in ran.err.splitlines() if each.startswith("mindgap:")]
    assert ran.status == 2 and not more and not ran.out, ran.err
    assert f"option without={name.rpartition('+')[2]}: " in line and nearest in line.rpartition("nearest are")[2]


def test_the_line_does_what_it_is_for(tmp_path: Path) -> None:
    """Each name of the list is taken: a session without all of them has the nodes of the file."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", values[:1], values[1:]), ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    )
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "kept.onnx")
    names = PASSES["onnxruntime/cpu"].names(parse("onnxruntime/cpu"))
    onnxruntime.InferenceSession(model.SerializeToString(), options, disabled_optimizers=names)
    kept = subprocess.run(
        [sys.executable, "-c", "import onnx, sys; print(len(onnx.load(sys.argv[1]).graph.node))",
         str(tmp_path / "kept.onnx")], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert kept.stdout.strip() == "2"


def convolution_with_bias(path: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/24711: the scale of the bias is not that of its operands."""
    draw = np.random.default_rng(0)
    weight = (draw.normal(size=(8, 4, 3, 3)) * 0.2).astype("f4")
    scale = np.float32(np.abs(weight).max() / 127)
    tensors = {
        "sx": np.float32(0.03), "zx": np.uint8(128), "sw": scale, "zw": np.int8(0), "sb": np.float32(1e-3),
        "wq": np.rint(weight / scale).astype("i1"), "bq": np.rint(draw.normal(size=8) / 1e-3).astype("i4"),
        "zb": np.int32(0), "so": np.float32(0.05), "zo": np.uint8(128),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "sx", "zx"], ["xq"]), node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"]),
        node("DequantizeLinear", ["wq", "sw", "zw"], ["wd"]), node("DequantizeLinear", ["bq", "sb", "zb"], ["bd"]),
        node("Conv", ["xd", "wd", "bd"], ["c"], "conv", pads=[1, 1, 1, 1]),
        node("QuantizeLinear", ["c", "so", "zo"], ["yq"]), node("DequantizeLinear", ["yq", "so", "zo"], ["y"]),
    ]  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 8, 8]) for n, c in (("x", 4), ("y", 8)))
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


@pytest.mark.nightly
def test_a_file_whose_optimizer_is_wrong(tmp_path: Path) -> None:
    convolution_with_bias(tmp_path / "bias.onnx")
    assert mindgap("env", "create", "ort", "onnxruntime==1.25.0", cwd=tmp_path).status == 0
    ran = mindgap("reduce", "bias.onnx", "-p", "onnxruntime/cpu@env=ort", "--out", "r", cwd=tmp_path)
    assert ran.status == 1, ran.err
    assert (
        "right with: onnxruntime.InferenceSession(…, disabled_optimizers=['QDQSelectorActionTransformer'])" in ran.out
    )


PROGRAM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, a, b):
        return torch.add(x, a @ b, alpha=0.5)

def alpha():
    torch.manual_seed(0)
    return Model(), (torch.randn(4, 4), torch.randn(4, 6), torch.randn(6, 4))

def silu():
    return torch.nn.SiLU(), (torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64),)
"""


@pytest.mark.nightly
def test_a_program_whose_pass_of_inductor_is_known(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    ran = mindgap("reduce", "model.py:alpha", "-p", "cpu/inductor", "--seconds", "10", "--out", "r", cwd=tmp_path)
    assert 'right with: torch._inductor.config.disabled_passes = "pass_pattern_2"' in ran.out, ran.err


@pytest.mark.nightly
def test_a_program_whose_optimizer_of_onnxruntime_is_known(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    assert mindgap("env", "create", "ort", "onnxruntime==1.24.4", cwd=tmp_path).status == 0
    ran = mindgap(
        "reduce", "model.py:silu", "-p", "onnxruntime/cpu@env=ort", "--seconds", "10", "--out", "r", cwd=tmp_path
    )
    assert "disabled_optimizers=['QuickGeluFusion']" in ran.out, ran.err


def test_passes_of_tvm_and_flags_of_iree() -> None:
    """Where no run shows the stage, the passes are tried too."""
    runs = Runs(parse("tvm/cpu"), ("tirx.StorageRewrite", "FuseOps"))
    line = pass_at_fault(runs, "unknown")
    assert line == "with tvm.transform.PassContext(disabled_pass=['tirx.StorageRewrite', 'FuseOps']): tvm.compile(…)"
    flag = "iree-llvmcpu-link-embedded"
    assert pass_at_fault(Runs(parse("iree/cpu"), (flag,)), "code generation") == f"iree-compile --{flag}=false"
    assert pass_at_fault(Runs(parse("iree/cpu"), (flag,)), "front end") == ""
    line = pass_at_fault(Runs(parse("openvino/cpu"), ("SNIPPETS_MODE",)), "device plugin")
    assert line == "openvino.Core().compile_model(…, \"CPU\", {'SNIPPETS_MODE': 'DISABLE'})"


@pytest.mark.nightly
def test_the_flag_of_iree_without_which_log10_links(tmp_path: Path) -> None:
    """The embedded linker has no log10f. In docs/findings/iree-cpu/log10_fails.py."""
    iree = next((each for each in environments() if each.name == "iree"), None)
    if iree is None:
        pytest.skip("no environment of IREE")
    (tmp_path / "log.py").write_text(
        "import torch\n\n\nclass Log(torch.nn.Module):\n    def forward(self, x):\n        return torch.log10(x)\n\n\n"
        "def make():\n    return Log(), (torch.rand(8) + 0.5,)\n"
    )
    home = iree.folder.parent.parent  # that of the environment, and not one of the test
    ran = mindgap("reduce", "log.py:make", "-p", "iree/cpu", "--out", "out", cwd=tmp_path, home=home)
    assert "right with: iree-compile --iree-llvmcpu-link-embedded=false" in ran.out, ran.err
