"""Short scripts are run in a process in which mindgap cannot be imported, and must give what our platforms give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from findings.script.programs import calls, gradients, layouts, literals, node, normal, of_recipe, recipes, spec
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.findings.reduction.reproducer import run_alone
from mindgap.findings.script.form import FAULT, NO_FAULT, NoShortScript, ScriptForm, case_part, script_source
from mindgap.findings.script.literals import cells_of, expression
from mindgap.findings.script.script_platform import ScriptPlatform
from mindgap.findings.script.short import ShownCase, short_script, with_cases
from mindgap.graph import Graph, Normal, Ref, materialise_all
from mindgap.graph.compare.digest import digest_array
from mindgap.graph_capture import capture
from mindgap.platforms.name import parse
from mindgap.platforms.registry import environment, find


def script(graph: Graph, platform: str, variables: Mapping[str, str] | None = None, **options: Any) -> str:
    form = ScriptForm("a title", ScriptPlatform.of(parse(platform), variables))
    return script_source(with_cases(form, [ShownCase("smallest", graph)], **options))


def ours(graph: Graph) -> list[str]:
    """What mindgap's own platform gives."""
    backend, options = find("cpu/eager")
    inputs = materialise_all(graph)
    return [digest_array(array) for array in backend.open(options).load(graph, inputs)(inputs)]


@pytest.mark.parametrize("kind", [recipes, literals, layouts], ids=lambda kind: kind.__name__)
def test_an_expression_gives_the_bits_and_the_strides(kind: Any) -> None:
    for name, graph in kind().items():
        (given,), (array,) = graph.inputs, materialise_all(graph)
        inf, nan = float("inf"), float("nan")
        made = eval(expression(given.spec, array), {"torch": torch, "inf": inf, "nan": nan})
        (wanted,) = input_tensors(graph, [array])
        assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape), name
        assert made.stride() == wanted.stride() or not made.numel(), name
        assert to_numpy(made).tobytes() == to_numpy(wanted).tobytes(), name


@pytest.mark.parametrize("public", [True, False])
def test_eager_gives_the_bits_of_our_platform(public: bool) -> None:
    """`long` has too many operators for a page."""
    graphs = {name: graph for name, graph in calls().items() if name != "long"}
    graphs |= {name: graph for name, graph in layouts().items() if cells_of(graph.inputs[0].spec) <= 256}
    for name, graph in graphs.items():
        space: dict[str, Any] = {"torch": torch, "inf": float("inf"), "nan": float("nan")}
        exec(case_part(script(graph, "cpu/eager", public=public)), space)
        Model, fresh = space["CASES"]["smallest"]
        found = Model().eval()(*fresh())
        found = found if isinstance(found, tuple) else (found,)
        assert [digest_array(to_numpy(tensor)) for tensor in found] == ours(graph), name


def test_the_reason_is_said_where_there_is_none() -> None:
    for graph, platform, said in (
        (gradients(), "cpu/jit", "gradients"),
        (calls()["long"], "cpu/jit", "40 operators, more than 12"),
        (of_recipe("float32", Normal(1), 20, 20), "cpu/jit", "400 numbers, more than 256"),
        (of_recipe("float32", Normal(1), 2, 2, stride=(900, 1)), "cpu/jit", "902 numbers, more than 256"),
        (of_recipe("float32", Normal(1), 2, 2), "toys:EXACT", "no script can run toys:EXACT"),
    ):
        with pytest.raises(NoShortScript, match=said):
            script(graph, platform)


def test_a_defect_is_seen() -> None:
    """OpenVINO's float64 is float32; nothing else of the program differs."""
    pytest.importorskip("openvino")
    graph = Graph(
        (normal(2, 3, dtype="float64"), normal(2, 3)),
        (node("exp.default", Ref(0), outputs=spec(2, 3, dtype="float64")), node("neg.default", Ref(1))),
        (2, 3),
    )
    status, printed, _ = run_alone(script(graph, "openvino/cpu@precision=f32"), "")
    assert status == 1 and printed.splitlines()[-1] == FAULT
    assert "output 0: torch.float64[2, 3]" in printed and printed.count(": wrong") == 1


@pytest.mark.parametrize(
    "name",
    [
        "weights",
        "in place",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("scalars", "members", "bfloat16", "overlapping")),
    ],
)
def test_onnxruntime_by_the_official_way(name: str) -> None:
    pytest.importorskip("onnxruntime")
    more = {"bfloat16": of_recipe("bfloat16", Normal(1), 3, 4), "overlapping": layouts()["overlapping"]}
    status, printed, errors = run_alone(script({**calls(), **more}[name], "onnxruntime/cpu"), "")
    assert (status, printed.splitlines()[-1]) == (0, NO_FAULT), printed + errors


@pytest.mark.nightly
def test_a_tier_of_instructions_is_in_force() -> None:
    name = "cpu/eager@isa=default"
    text = script(calls()["scalars"], name, environment(parse(name), find(name)[0]))
    status, printed, errors = run_alone(text, "")
    assert status == 0 and printed.splitlines()[0].endswith("DEFAULT"), printed + errors


_SLOW = [
    pytest.param("cpu/inductor", marks=pytest.mark.nightly),
    pytest.param("cpu/aotinductor", marks=pytest.mark.nightly),
]


@pytest.mark.nightly
@pytest.mark.parametrize("platform", ["cpu/jit", *_SLOW])
def test_compilers(platform: str) -> None:
    names = ("scalars", "weights", "in place", "members") if platform == "cpu/jit" else ("weights",)
    for name in names:
        status, printed, errors = run_alone(script(calls()[name], platform), "")
        assert (status, printed.splitlines()[-1]) == (0, NO_FAULT), (name, printed + errors)


@pytest.mark.parametrize(
    ("platform", "properties"),
    [
        ("iree/cpu@cpu=haswell,float64=kept,opt=O2", "{'iree-hal-target-backends': 'llvm-cpu', "
         "'iree-input-demote-f64-to-f32': 'false', 'iree-llvmcpu-target-cpu': 'haswell', 'iree-opt-level': 'O2'}"),
        ("onnxruntime/openvino@opt=off,precision=f32,threads=2",
         "{'device_type': 'CPU', 'precision': 'FP32', 'num_of_threads': '2'}"),
        ("tvm/cpu@cpu=haswell,opt=off", "{'kind': 'llvm', 'mcpu': 'haswell', 'opt-level': 0}"),
    ],
)  # fmt: skip
def test_options_of_a_compiler_are_in_its_short_script(platform: str, properties: str) -> None:
    graph = capture(torch.sin, (torch.ones(2),))
    text = short_script(graph, ScriptPlatform.of(parse(platform), {}), "title", inputs=materialise_all(graph))
    assert f"PROPERTIES = {properties}" in text
    compile(text, "script", "exec")
