"""What a package's code uses is found by parsing it, and grouped by what each platform makes of its samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import mindgap
from mindgap.cli.portability import status_of_uses
from mindgap.cli.streams import Exit
from mindgap.graph import Constant, Graph, Input, Labels, MindgapError, Node, Ref, TensorSpec
from mindgap.models.corpus.operator_samples.public_names import method_names, sources_of
from mindgap.platforms.name import PlatformName
from mindgap.report.sarif import sarif_of_portability
from mindgap.results.rows import Model, Report, Row
from mindgap.workflows.support.code_scan import CodeScan, Place, scan
from mindgap.workflows.support.portability import FunctionUse, Ported, captured_calls, ported_functions

CODE = """
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.linalg import qr as factors


class Net(nn.Module):
    def __init__(self, activation=F.gelu) -> None:
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor, other: "torch.Tensor") -> torch.Tensor:
        y = torch.nn.functional.relu(self.conv(x)).cumprod(2).split(2)
        return torch.made_up(factors(y), F.relu(y), "a b".split())
"""


def test_calls_and_functions_that_are_handed_on_are_found_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "net.py").write_text(CODE)
    (tmp_path / "bad.py").write_text("def broken(:")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "made.py").write_text("import torch\ntorch.add(1, 2)\n")
    found = scan(tmp_path, {"cumprod", "split"})
    assert {name: [str(place) for place in places] for name, places in found.uses.items()} == {
        "torch.Tensor.cumprod": ["sub/net.py:13"],
        "torch.linalg.qr": ["sub/net.py:14"],
        "torch.made_up": ["sub/net.py:14"],
        "torch.nn.Conv2d": ["sub/net.py:10"],
        "torch.nn.Module": ["sub/net.py:8"],
        "torch.nn.functional.gelu": ["sub/net.py:9"],
        "torch.nn.functional.relu": ["sub/net.py:13", "sub/net.py:14"],
    }
    assert found.called == found.uses.keys() - {"torch.nn.Module", "torch.nn.functional.gelu"}
    assert (found.files, found.unreadable) == (2, {"bad.py": "line 1: invalid syntax"})


def test_calls_of_a_program_are_tried_once_for_each_form_with_all_their_lines(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "net.py").write_text("")
    vector, matrix = TensorSpec.contiguous("float32", (3,)), TensorSpec.contiguous("float32", (2, 3))
    nodes = (
        Node("aten.abs.default", (Ref(0),), (), (vector,)),
        Node("aten.abs.default", (Ref(2),), (), (vector,)),
        Node("aten.abs.default", (Ref(1),), (), (matrix,)),
    )
    labels = Labels(nodes=("layers.0 (net.py:7)", "net.py:9", "other.py:3"))
    graph = Graph((Input(vector, Constant(0.5)), Input(matrix, Constant(0.5))), nodes, (3, 4), labels=labels)
    found = captured_calls(graph, tmp_path)
    assert [(each.op, [str(place) for place in each.places]) for each in found] == [
        ("aten.abs.default", ["sub/net.py:7", "sub/net.py:9"]),
        ("aten.abs.default", ["other.py:3"]),
    ]
    assert [each.graph.inputs[0].spec for each in found] == [vector, matrix]


def test_a_long_chain_of_operators_costs_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text("import torch\ny = torch.sin(x)" + " + 1" * 1_000)
    (tmp_path / "longer.py").write_text("x = 1" + " + 1" * 100_000)
    (tmp_path / "other.py").write_text("import torch\ny = torch.cos(x)")
    found = scan(tmp_path)
    assert {name: str(place) for name, (place,) in found.uses.items()} == {
        "torch.cos": "other.py:2",
        "torch.sin": "chain.py:2",
    }
    assert [*found.unreadable] == ["longer.py"] and found.unreadable["longer.py"]


@pytest.mark.parametrize(
    ("words", "unreadable", "status"),
    [
        (["runs", "not known"], {}, Exit.NOTHING_FOUND),
        (["not known", "not known"], {}, Exit.WRONG_USE),
        (["runs"], {"a.py": "line 1: invalid syntax"}, Exit.WRONG_USE),
        (["lacks"], {"a.py": "line 1: invalid syntax"}, Exit.FINDINGS),
        ([], {}, Exit.WRONG_USE),
    ],
)
def test_what_is_not_known_has_a_status(words: list[Any], unreadable: dict[str, str], status: Exit) -> None:
    here, there = PlatformName("cpu/jit"), PlatformName("openvino/cpu")
    found = [FunctionUse("f", (), {here: Ported(word, 0, 0), there: Ported("runs", 1, 1)}) for word in words]
    assert status_of_uses(CodeScan({}, frozenset(), 1, unreadable), found) == status


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no Python file"),
        ({"a.py": "(", "b.py": "\0"}, "none of 2 files parses: a.py: line 1: '\\(' was never closed"),
    ],
)
def test_nothing_to_scan_is_an_error(files: dict[str, str], said: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(MindgapError, match=said):
        scan(tmp_path)
    with pytest.raises(MindgapError, match="no such file"):
        scan(tmp_path / "absent")


def test_names_have_sample_sources() -> None:
    assert sources_of("torch.nn.Conv2d") == ("modules:Conv2d",)
    assert sources_of("torch.nn.functional.gelu") == ("ops:nn.functional.gelu",)
    assert sources_of("torch.Tensor.cumprod") == sources_of("torch.cumprod") == ("ops:cumprod",)
    assert sources_of("torch.absolute") == ("ops:abs",), "an alias"
    assert sources_of("torch.no_grad") == sources_of("torch.nn.Module") == ()
    assert {"cumprod", "relu"} & method_names() == {"cumprod"}


def test_a_function_is_what_its_samples_give() -> None:
    here, there = PlatformName("cpu/jit"), PlatformName("openvino/cpu")
    refused = {"status": "unsupported", "verdict": None, "message": "no rule"}
    rows = [
        Row("qr#0", here, "ok", "identical"), Row("qr#1", here, "ok", "rounding"),
        Row("qr#0", there, "ok", "rounding"), Row("qr#1", there, **refused),
        Row("zeta#0", here, "ok", "discrepant", detail="off by 3"), Row("zeta#0", there, **refused),
        Row("late#0", here, "not_run", None), Row("late#0", there, "ok", "rounding"),
    ]  # fmt: skip
    models = tuple(Model(name, "", 0, 0, (), (), "ok", source=f"ops:{name}") for name in ("qr#0", "qr#1", "zeta#0"))
    report = Report(PlatformName("cpu/eager"), (), models, tuple(rows))
    functions = {"qr#0": "torch.linalg.qr", "qr#1": "torch.linalg.qr", "zeta#0": "torch.zeta", "late#0": "torch.late"}
    places = {name: (Place("net.py", 3),) for name in functions.values()}
    qr, zeta, late = ported_functions(places, functions, report, [here, there])
    assert [(p.word, p.ran, p.compared) for p in qr.platforms.values()] == [("runs", 2, 2), ("in part", 1, 2)]
    assert (qr.platforms[there].reason, qr.platforms[there].sample) == ("unsupported: no rule", "ops:qr#1")
    assert [p.word for p in zeta.platforms.values()] == ["differs", "lacks"]
    assert zeta.platforms[here].reason == "discrepant: off by 3"
    assert [p.word for p in late.platforms.values()] == ["not known", "runs"]
    assert [each.stops for each in (qr, zeta, late)] == [True, True, False]
    results = json.loads(sarif_of_portability([qr, zeta, late], Path("src")))["runs"][0]["results"]
    assert [each["ruleId"] for each in results] == ["in_part", "differs", "lacks"]
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/net.py"


@pytest.mark.nightly
def test_the_command_names_what_a_platform_lacks(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef f(x):\n    return torch.special.zeta(x, x) + torch.cumsum(x, 0)\n"
    )
    ran = mindgap("portability", "net.py", "-p", "onnxruntime/cpu", "--json", cwd=tmp_path)
    found = {each["function"]: each for each in json.loads(ran.out)["functions"]}
    words = {name: each["platforms"]["onnxruntime/cpu"]["word"] for name, each in found.items()}
    assert (ran.status, words) == (1, {"torch.cumsum": "runs", "torch.special.zeta": "lacks"})
    assert found["torch.special.zeta"]["places"] == ["net.py:5"]
