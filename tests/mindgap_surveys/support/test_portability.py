"""What a package's code uses is found by parsing it, and grouped by what each platform makes of its samples."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.command_line import mindgap
from mindgap.cli.streams import Exit
from mindgap.graph import Constant, Graph, Input, Labels, MindgapError, Node, Ref, TensorSpec, default_tensor_store
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Model, Report, Row
from mindgap.workflows.diff.session import with_distinct_names
from mindgap_surveys.cli.portability import _captured, _is_method, _object, _options, _page, status_of_uses
from mindgap_surveys.cli.study_text import print_page
from mindgap_surveys.report.portability_sarif import sarif_of_portability
from mindgap_surveys.support.code_scan import CodeScan, Place, scan
from mindgap_surveys.support.portability import (
    FunctionUse,
    LeftOut,
    Ported,
    _ported,
    captured_calls,
    ported_functions,
    without_answer,
)
from mindgap_zoo.operator_samples.public_names import sources_of
from mindgap_zoo.operator_samples.signatures import DEFAULT, is_tensor_method, options_of

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
    found = scan(tmp_path, lambda name, form: name in ("cumprod", "split"))
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
    found, left = captured_calls(graph, tmp_path)
    assert not left
    assert [(each.op, [str(place) for place in each.places]) for each in found] == [
        ("aten.abs.default", ["sub/net.py:7", "sub/net.py:9"]),
        ("aten.abs.default", ["other.py:3"]),
    ]
    assert [each.graph.inputs[0].spec for each in found] == [vector, matrix]


BIG = TensorSpec.contiguous("float32", (512, 256))


def of_large_calls() -> Graph:
    """Calls `sin` and `exp` on 512 KiB, and `exp` on 12 bytes."""
    small = TensorSpec.contiguous("float32", (3,))
    nodes = (
        Node("aten.sin.default", (Ref(0),), (), (BIG,)),
        Node("aten.exp.default", (Ref(2),), (), (BIG,)),
        Node("aten.exp.default", (Ref(1),), (), (small,)),
    )
    labels = Labels(nodes=("net.py:7", "net.py:8", "net.py:9"))
    return Graph((Input(BIG, Constant(0.5)), Input(small, Constant(0.5))), nodes, (3, 4), labels=labels)


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([("ok", "failed")], "lacks"),
        ([("ok", "failed"), ("ok", "rounding")], "in part"),
        ([("crashed", "failed"), ("ok", "discrepant")], "differs"),
        ([("ok", "identical")], "runs"),
        ([("not_run", None)], "not known"),
    ],
)
def test_an_export_that_fails_is_no_other_result(rows: Any, word: str) -> None:
    assert _ported([Row("ops:f#0", "cpu/jit", status, verdict) for status, verdict in rows], {}).word == word


def test_calls_that_are_too_large_are_named(tmp_path: Path) -> None:
    found, left = captured_calls(of_large_calls(), tmp_path)
    reason = "its operands take 512 KiB, more than 256"
    assert [each.op for each in found] == ["aten.exp.default"]
    assert left == [
        LeftOut("aten.sin.default", 1, reason, (Place("net.py", 7),)),
        LeftOut("aten.exp.default", 1, reason, (Place("net.py", 8),)),
    ]
    here = PlatformName("cpu/jit")
    tried = [FunctionUse("aten.exp.default", (), {here: Ported("runs", 1, 1)})]
    (unknown,) = without_answer({"net.py:make": left}, tried, [here])
    assert (unknown.function, unknown.places, unknown.stops) == ("aten.sin.default", (Place("net.py", 7),), False)
    assert unknown.platforms[here] == Ported("not known", 0, 0, reason, "net.py:make")
    nothing = CodeScan({}, frozenset(), 1, {})
    assert status_of_uses(nothing, [*tried, unknown]) == Exit.NOTHING_FOUND
    assert status_of_uses(nothing, [unknown]) == Exit.WRONG_USE
    shown = io.StringIO()
    print_page(_page(nothing, [*tried, unknown], [], {"net.py:make": left}, every=False), shown)
    assert "cpu/jit, of 2 functions: runs: 1, not known: 1" in shown.getvalue()
    lines = [line.split(maxsplit=4) for line in shown.getvalue().splitlines()]
    assert ["net.py:make", "aten.exp.default", "1", "net.py:8", reason] in lines
    (first, _) = _object(nothing, [unknown], [], {"net.py:make": left})["left_out"]
    assert (first["program"], first["operator"], first["calls"]) == ("net.py:make", "aten.sin.default", 1)


def test_calls_of_programs_of_one_name_have_names_of_their_own(tmp_path: Path) -> None:
    graph = of_large_calls()
    client: Any = SimpleNamespace(
        where=None, stop=None, build=lambda *_: 0, capture=lambda *_, **__: graph,
        open=lambda source: SimpleNamespace(
            programs=[SimpleNamespace(name="make", source=source, first="", captured=False, group="")]
        ),
    )  # fmt: skip
    numbers, left = itertools.count(), list[LeftOut]()
    found = [
        subject
        for source in ("a/net.py:make", "b/net.py:make")
        for subject, _, _ in _captured(source, tmp_path, client, default_tensor_store(), numbers, left)
    ]
    names = [each.name for each in found]
    assert names == ["make, call 0", "make, call 1"] and len(left) == 4
    assert [each.name for each in with_distinct_names(found)] == names, "rows have the names that functions are kept by"


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
    assert sources_of("torch.nn.functional.softmax", [options_of("torch.softmax", (..., -1), {})]) == (
        "ops:softmax",
    ), "none with `dtype=`"
    assert sources_of("torch.softmax", [options_of("torch.softmax", (..., -1), {"dtype": ...})]) == (
        "ops:softmax",
        "ops:softmax.with_dtype",
    )
    resize = "torch.nn.functional.interpolate"
    cubic = sources_of(resize, [options_of(resize, (...,), {"size": ..., "mode": "bicubic"})])
    assert cubic and all(each.startswith("ops:nn.functional.interpolate.bicubic#") for each in cubic)


@pytest.mark.parametrize(
    ("name", "positional", "keywords", "fits"),
    [
        ("log", 0, {}, True), ("log", 1, {}, False), ("log", 2, {}, False), ("softmax", 1, {}, True),
        ("softmax", 0, {}, False), ("softmax", 0, {"dim": ...}, True), ("softmax", 0, {"axis": ...}, True),
        ("permute", 3, {}, True), ("unique", 0, {"sorted": True}, True), ("put", 1, {}, False), ("cat", 1, {}, False),
        ("made_up", 0, {}, False),
    ],
)  # fmt: skip
def test_a_method_of_tensors_takes_the_arguments(name: str, positional: int, keywords: Any, fits: bool) -> None:
    assert is_tensor_method(name, positional, keywords) == fits


@pytest.mark.parametrize(
    ("call", "double"),
    [
        ("F.softmax(x, dim=-1, dtype=torch.float32)", False), ("F.softmax(x, -1, dtype=torch.half)", False),
        ("F.softmax(x, dim=-1, **options)", False), ("apply(F.softmax)", False), ("F.softmax(x, dim=-1)", False),
        ("F.softmax(x, dim=-1, dtype=torch.float64)", True), ("F.softmax(x, dim=-1, dtype=torch.double)", True),
        ("F.softmax(x, dim=-1, dtype=y.dtype)", True),
    ],
)  # fmt: skip
def test_samples_pass_no_dtype_that_a_users_code_does_not_pass(call: str, double: bool, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(f"import torch\nimport torch.nn.functional as F\nz = {call}\n")
    name, scanned = "torch.nn.functional.softmax", scan(tmp_path, _is_method)
    sources = sources_of(name, *_options(name, scanned))
    assert any("with_dtype" in each for each in sources) == double
    assert double or sources == ("ops:softmax",)


def test_options_have_names_and_no_defaults() -> None:
    given = options_of("torch.nn.functional.pad", (..., ...), {"mode": "constant"})
    assert given == {"pad": ..., "mode": DEFAULT, "value": DEFAULT}
    assert options_of("torch.Tensor.amax", (0,), {"keepdim": True}) == {"dim": ..., "keepdim": True}
    conv = options_of("torch.nn.Conv2d", (3, 8, 3), {"bias": False})
    assert (conv["kernel_size"], conv["bias"], conv["stride"]) == (..., False, DEFAULT)


#: Methods of tensors that the files of `packages` call.
METHODS = {
    "audio": "abs amax angle log10 unsqueeze",
    "decoder": "contiguous masked_fill softmax tanh view",
    "detection": "argsort clamp clamp_ div expand item nonzero permute prod sigmoid topk",
    "graph_network": "exp expand_as index_add index_select masked_fill_ new_full new_zeros pow scatter_add_ "
    "scatter_reduce unsqueeze view",
    "lightning_training": "",
    "ppo": "cumsum exp item long view",
    "recommender": "float logsumexp repeat_interleave unique view",
    "trainer_script": "expand float item log_softmax softmax t unsqueeze view",
    "unet": "float lerp repeat sqrt to",
    "vision": "bernoulli_ div_ log_softmax mul new_empty permute",
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_a_public_packages_code_are_those_of_tensors(name: str) -> None:
    found = scan(Path(__file__).parent / "packages" / f"{name}.py", _is_method)
    methods = {each.removeprefix("torch.Tensor.") for each in found.uses if each.startswith("torch.Tensor.")}
    in_place = {each for each in METHODS[name].split() if each.endswith("_")}
    assert methods == set(METHODS[name].split()) - in_place - {"nonzero"}
    assert all(sources_of(each, *_options(each, found)) for each in found.uses if each.startswith("torch.Tensor."))


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
    qr_names = ["torch.linalg.qr", "torch.qr"]
    functions = {"qr#0": qr_names, "qr#1": qr_names, "zeta#0": ["torch.zeta"], "late#0": ["torch.late"]}
    places = {name: (Place("net.py", 3),) for each in functions.values() for name in each}
    qr, alias, zeta, late = ported_functions(places, functions, report, [here, there])
    assert alias.platforms == qr.platforms, "two names of one sample"
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
        "import torch\n\n\ndef f(x):\n    return torch.special.zeta(x, x) + torch.cumsum(x, 0) + x.cumsum(dim=0)\n"
        "\n\ndef g(x):\n    return torch.multinomial(x, 2, replacement=True)\n"
    )
    ran = mindgap("portability", "net.py", "-p", "onnxruntime/cpu", "--json", cwd=tmp_path)
    found = {each["function"]: each for each in json.loads(ran.out)["functions"]}
    words = {name: each["platforms"]["onnxruntime/cpu"]["word"] for name, each in found.items()}
    assert (ran.status, words) == (1, {
        "torch.Tensor.cumsum": "runs", "torch.cumsum": "runs", "torch.multinomial": "runs",
        "torch.special.zeta": "lacks",
    })  # fmt: skip
    assert found["torch.special.zeta"]["places"] == ["net.py:5"]
