"""Scripts are run in a fresh process in which mindgap cannot be imported, and must give what our platforms give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.aten.tensors import to_numpy
from mindgap.findings.script.rendering import render, script_of
from mindgap.findings.script.short import short_script
from mindgap.findings.script.target import Recorded, Target
from mindgap.graph import Graph, Input, Normal, Ref, Stored, TensorStore, Uniform, materialise_all
from mindgap.graph.compare.digest import digest_array
from mindgap.models.capture import capture
from mindgap.platforms.registry import environment, find, parse
from script.programs import calls, gradients, layouts, literals, node, normal, of_recipe, recipes, spec

#: Runs every script named in the arguments in one process and leaves what it gave beside it.
DRIVER = """
import json, runpy, sys, torch
for file in sys.argv[1:]:
    space = runpy.run_path(file)
    found, saved = space["both_sides"](space["CASE"], in_process=True)
    torch.save(saved, file + ".pt")
    with open(file + ".json", "w") as out:
        json.dump(space["strict"](found), out)
"""


@pytest.fixture
def alone(tmp_path: Path) -> Mapping[str, str]:
    """The environment of a process to which mindgap is not there."""
    blocked = tmp_path / "blocked" / "mindgap"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('a script must not import mindgap')\n")
    found = {**os.environ, "PYTHONPATH": str(blocked.parent), "OMP_NUM_THREADS": "1"}
    refused = subprocess.run([sys.executable, "-c", "import mindgap"], env=found, capture_output=True, check=False)
    assert refused.returncode == 1 and b"must not import mindgap" in refused.stderr
    return found


def run(file: Path, alone: Mapping[str, str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, the last line, and everything before it."""
    done = subprocess.run(
        [sys.executable, str(file), *arguments], env=alone, capture_output=True, text=True, timeout=280, check=False
    )
    *printed, last = done.stdout.splitlines() or [""]
    assert last.startswith("{"), done.stderr
    return done.returncode, json.loads(last), "\n".join(printed)


def many(graphs: Mapping[str, Graph], platform: str, tmp_path: Path, alone: Mapping[str, str]) -> dict[str, Any]:
    """The records and outputs of scripts for all graphs, by one process."""
    files = {name: tmp_path / f"{number}.py" for number, name in enumerate(graphs)}
    for name, file in files.items():
        graph = graphs[name]
        file.write_text(script_of(graph, materialise_all(graph), Target.of(platform), name=name))
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, str(driver), *map(str, files.values())], env=alone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {
        name: (json.loads(Path(f"{file}.json").read_text()), torch.load(f"{file}.pt", weights_only=True))
        for name, file in files.items()
    }


def digests(tensors: Any) -> list[str]:
    return [digest_array(to_numpy(tensor)) for tensor in tensors]


def ours(graph: Graph, platform: str = "cpu/eager") -> list[str]:
    """What mindgap's own platform gives."""
    backend, options = find(platform)
    inputs = materialise_all(graph)
    return [digest_array(array) for array in backend.open(options).load(graph, inputs)(inputs)]


@pytest.mark.parametrize("kind", [recipes, literals, layouts, calls], ids=lambda kind: kind.__name__)
def test_eager_gives_the_bits_of_our_platform(kind: Any, tmp_path: Path, alone: Mapping[str, str]) -> None:
    graphs = kind()
    found = many(graphs, "nowhere/at-all", tmp_path, alone)
    for name, graph in graphs.items():
        record, saved = found[name]
        assert record["inputs_ok"], name
        assert record["status"]["eager"]["status"] == "ok", (name, record["status"])
        assert record["status"]["platform"]["status"] == "not_run", name
        assert digests(saved["eager"]) == ours(graph), name


def test_float64_is_float64(tmp_path: Path, alone: Mapping[str, str]) -> None:
    graphs = calls()
    found = many(graphs, "nowhere/at-all", tmp_path, alone)
    for name in graphs:
        record, saved = found[name]
        assert record["status"]["float64"]["status"] == "ok", (name, record["status"])
        wide = (torch.float64, torch.complex128)
        for own, exact in zip(saved["eager"], saved["float64"], strict=True):
            assert (
                exact.dtype in wide if own.dtype.is_floating_point or own.dtype.is_complex else exact.dtype == own.dtype
            )
            assert torch.allclose(own.to(exact.dtype), exact, rtol=1e-2, equal_nan=True), name
    kept = found["in place after a cast"][1]
    assert torch.equal(kept["float64"][1], 2 * normal_values("float16").double()), "the cast was not a copy"
    [narrow, neighbour] = found["bits"][0]["not_in_float64"]
    assert "aten.view.dtype" in narrow and "aten.nextafter" in neighbour
    # 0.3 is the float32 scalar that the kernel uses, and no sum is rounded.
    a, b = normal_values(seed=1).double(), normal_values(seed=2).double()
    assert torch.equal(found["scalars"][1]["float64"][0], a + torch.tensor(0.3).double() * b)


def normal_values(dtype: str = "float32", seed: int = 1) -> torch.Tensor:
    graph = of_recipe(dtype, Normal(seed), 2, 3)
    return torch.from_numpy(materialise_all(graph)[0])  # pyright: ignore[reportUnknownMemberType]


def test_a_defect_is_seen_and_its_culprit(tmp_path: Path, alone: Mapping[str, str]) -> None:
    """OpenVINO's float64 is float32; nothing else of the program differs."""
    graph = Graph(
        (normal(2, 3, dtype="float64"), normal(2, 3)),
        (node("exp.default", Ref(0), outputs=spec(2, 3, dtype="float64")), node("neg.default", Ref(1))),
        (2, 3),
    )
    pytest.importorskip("openvino")
    file = tmp_path / "case.py"
    target = Target.of("openvino/cpu@precision=f32")
    file.write_text(
        script_of(graph, materialise_all(graph), target, culprit=0, recorded=Recorded({"word": "x"}, "Words."))
    )
    status, found, printed = run(file, alone)
    first, second = found["outputs"]
    assert status == 1 and found["differs"]
    assert first["differs"] and first["eager"]["max_ulp_err"] < 1 < 1e6 < first["platform"]["max_ulp_err"]
    assert second["differing"] == 0 and not second["differs"]
    assert found["culprit"]["name"] == "aten.exp.default" and found["culprit"]["differs"]
    assert "DIFFERS" in printed and "the culprit alone" in printed
    assert found["recorded"] == {"word": "x"}


def test_onnxruntime_by_the_official_way(tmp_path: Path, alone: Mapping[str, str]) -> None:
    pytest.importorskip("onnxruntime")
    wanted = ("scalars", "weights", "complex", "in place", "members")
    graphs = {name: graph for name, graph in calls().items() if name in wanted}
    graphs["bfloat16"] = of_recipe("bfloat16", Normal(1), 3, 4)
    for name, (record, saved) in many(graphs, "onnxruntime/cpu", tmp_path, alone).items():
        if name == "complex":  # complex128 has no ONNX form
            assert record["status"]["platform"]["status"] == "failed" or not record["differs"]
            continue
        assert record["status"]["platform"]["status"] == "ok", record["status"]
        assert not record["differs"] and record["exit"] == 0, (name, record["outputs"])
        if name in ("members", "bfloat16"):  # they compute nothing that rounds
            assert digests(saved["platform"]) == digests(saved["eager"]), name


def test_a_tier_of_instructions_is_in_force(tmp_path: Path, alone: Mapping[str, str]) -> None:
    graph = Graph(
        (normal(64, 300), normal(300, 64, seed=2)), (node("mm.default", Ref(0), Ref(1), outputs=spec(64, 64)),), (2,)
    )
    name = "cpu/eager@isa=default,threads=1"
    variables = environment(parse(name), find(name)[0])
    file = tmp_path / "case.py"
    file.write_text(script_of(graph, materialise_all(graph), Target.of(name, variables)))
    status, found, _ = run(file, alone, "--json", "--save", str(tmp_path / "out.pt"))
    saved = torch.load(tmp_path / "out.pt", weights_only=True)
    assert status in (0, 1) and found["status"]["platform"]["status"] == "ok"
    code = "import sys, torch; torch.save(torch.mm(*torch.load(sys.argv[1])), sys.argv[2])"
    torch.save([torch.from_numpy(a) for a in materialise_all(graph)], tmp_path / "in.pt")  # pyright: ignore[reportUnknownMemberType]
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "in.pt"), str(tmp_path / "mm.pt")],
        env={**os.environ, **variables}, check=True,
    )  # fmt: skip
    assert torch.equal(saved["platform"][0], torch.load(tmp_path / "mm.pt", weights_only=True))
    assert not torch.equal(saved["platform"][0], saved["eager"][0]), "both sides ran on one tier"


_SLOW = [
    pytest.param("cpu/inductor", marks=pytest.mark.slow),
    pytest.param("cpu/aotinductor", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("platform", ["cpu/jit", *_SLOW])
def test_compilers(platform: str, tmp_path: Path, alone: Mapping[str, str]) -> None:
    graphs = {name: graph for name, graph in calls().items() if name in ("scalars", "weights", "in place", "members")}
    graphs["masked gradients"] = calls()["masked gradients"]
    if platform != "cpu/jit":
        graphs = {"weights": graphs["weights"]}
    else:
        graphs["gradients"] = gradients()
    for name, (record, saved) in many(graphs, platform, tmp_path, alone).items():
        assert record["status"]["platform"]["status"] == "ok", (name, record["status"])
        assert not record["differs"], (name, record["outputs"])
        assert len(saved["platform"]) == len(saved["eager"])


def test_gradients_follow_the_outputs(tmp_path: Path, alone: Mapping[str, str]) -> None:
    [(record, saved)] = many({"gradients": gradients()}, "nowhere/at-all", tmp_path, alone).values()
    assert digests(saved["eager"]) == ours(gradients())
    assert len(saved["float64"]) == 3 and all(t.dtype == torch.float64 for t in saved["float64"])
    assert all(output["eager"]["max_abs_err"] < 1e-5 for output in record["outputs"])


def test_a_crash_and_a_hang_are_data(tmp_path: Path, alone: Mapping[str, str]) -> None:
    graph = of_recipe("float32", Normal(1), 2, 3)
    text = script_of(graph, materialise_all(graph), Target.of("cpu/jit"), culprit=0)
    assert "def run_jit(" in text
    for body, status in (("os.abort()", "crashed"), ("time.sleep(999)", "timeout"), ("raise KeyError(3)", "failed")):
        file = tmp_path / f"{status}.py"
        start = text.index('    """', text.index("def run_jit("))
        changed = f"{text[:start]}    {body}\n{text[start:]}"
        if status == "timeout":
            changed = changed.replace("TIMEOUT_S = 300.0", "TIMEOUT_S = 10.0")
        file.write_text(changed)
        code, found, printed = run(file, alone, *(["--no-culprit"] if status == "timeout" else []))
        assert code == 1 and found["status"]["platform"]["status"] == status, found["status"]
        assert f"platform  {status}" in printed
        if status == "crashed":
            assert found["status"]["platform"]["error"] == "SIGABRT"
            assert found["culprit"]["status"]["platform"]["status"] == "crashed"


def test_changed_inputs_are_said_loudly(tmp_path: Path, alone: Mapping[str, str]) -> None:
    graph = of_recipe("float32", Uniform(1), 2, 3)
    text = script_of(graph, materialise_all(graph), Target.of("nowhere/at-all"))
    file = tmp_path / "case.py"
    file.write_text(text.replace("x0 = torch.tensor(", "x0 = 1 + torch.tensor(", 1))
    done = subprocess.run([sys.executable, str(file)], env=alone, capture_output=True, text=True, check=False)
    assert "THE INPUTS ARE NOT THOSE" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["inputs_ok"] is False


def test_recorded_values_are_checked(tmp_path: Path, alone: Mapping[str, str]) -> None:
    graph = of_recipe("float32", Normal(1), 3, 5)
    values = materialise_all(graph)[0].ravel()
    sample = [float(values[i * 14 // 7]) for i in range(8)]
    sample_metrics = {"dtype": "float32", "shape": [3, 5], "nan": 0, "sampled": 8, "sample": sample}
    wrong = {**sample_metrics, "sample": [*sample[:7], sample[7] + 1]}
    text = script_of(
        graph, materialise_all(graph), Target.of("cpu/jit"), recorded=Recorded({}, "", [sample_metrics], [wrong])
    )
    (tmp_path / "case.py").write_text(text)
    _, found, printed = run(tmp_path / "case.py", alone)
    assert found["matches_recorded"] == {"eager": True, "platform": False}
    assert "platform: OTHER VALUES THAN WERE RECORDED" in printed


def test_a_large_tensor_lies_beside_the_script(tmp_path: Path, alone: Mapping[str, str]) -> None:
    values = torch.randn(200, 300, generator=torch.Generator().manual_seed(1)).numpy()
    store = TensorStore(tmp_path / "tensors")
    held = Input(spec(200, 300), Stored(store.put(values)), "parameter")
    graph = Graph((held,), (node("sum.default", Ref(0), outputs=spec()),), (1,))
    made = render(graph, materialise_all(graph, store), Target.of("nowhere/at-all"), beside="case.npz")
    assert list(made.files) == ["case.npz"] and len(made.text) < 60_000
    (tmp_path / "case.npz").write_bytes(made.files["case.npz"])
    (tmp_path / "case.py").write_text(made.text)
    _, found, _ = run(tmp_path / "case.py", alone)
    assert found["inputs_ok"] and found["status"]["eager"]["status"] == "ok"
    inside = script_of(graph, materialise_all(graph, store), Target.of("nowhere/at-all"))
    assert "unpacked(" in inside and "loaded(" not in inside.partition("def loaded")[0]


@pytest.mark.parametrize(
    ("platform", "properties"),
    [
        ("iree/cpu@cpu=haswell,float64=kept,opt=O2", "{'iree-hal-target-backends': 'llvm-cpu', "
         "'iree-input-demote-f64-to-f32': 'false', 'iree-llvmcpu-target-cpu': 'haswell', 'iree-opt-level': 'O2'}"),
        ("onnxruntime/openvino@opt=off,precision=f32,threads=2",
         "{'device_type': 'CPU', 'num_of_threads': '2', 'precision': 'FP32'}"),
        ("tvm/cpu@cpu=haswell,opt=off", "{'kind': 'llvm', 'mcpu': 'haswell', 'opt-level': 0}"),
    ],
)  # fmt: skip
def test_options_of_a_compiler_are_in_its_short_script(platform: str, properties: str):
    graph = capture(torch.sin, (torch.ones(2),))
    script = short_script(graph, Target.of(platform, {}), "title", inputs=materialise_all(graph))
    assert script is not None and f"PROPERTIES = {properties}" in script
    compile(script, "script", "exec")
