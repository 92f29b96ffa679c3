"""`mindgap diff` takes the program itself the way of each platform's users, and says where that changes it."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from cli.command_line import mindgap
from judge.oracle.bench import build
from mindgap.graph import MindgapError
from mindgap.graph.compare.reason import Reason
from mindgap.judge.pipeline.model_files import decided_by_reference
from mindgap.judge.pipeline.own_path import with_own_path
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.runs import OwnRun
from mindgap.own_path.sizes import parse_sizes
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.name import parse
from mindgap.results.rows import Row
from mindgap.run.outcome import Outcome

from . import programs

PROGRAMS = (
    "onnx_branch",
    "compile_branch",
    "promoting",
    "frozen",
    "cooling",
    "masked",
    "nested",
    "sets",
    "declared",
    "reading",
)
MORE_PROGRAMS = ("dropping", "dropping_always", "counting", "noting", "caching", "streaming")
ONNX = "onnxruntime/cpu"
OPENVINO = "openvino/cpu@precision=f32"
Rows = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder with the programs, which all test processes share."""
    own = tmp_path_factory.getbasetemp()
    made = (own if worker_id == "master" else own.parent) / "own_path"
    made.mkdir(exist_ok=True)
    for name in ("programs.py", "custom.py"):
        # Renamed, so that no process reads half of a file.
        Path(shutil.copy(Path(__file__).with_name(name), made / f"{name}.{worker_id}")).rename(made / name)
    return made


def rows_once(folder: Path, name: str, *arguments: str, status: int = 1) -> Rows:
    """The rows of one command, by program and platform. It runs once, whichever test process needs them first."""
    report = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not report.exists():
            ran = mindgap("diff", *arguments, "--json", cwd=folder, own_path=True)
            assert ran.status == status, ran.err
            report.write_text(ran.out)
    return {(row["model"].partition(":")[2], row["platform"]): row for row in json.loads(report.read_text())["rows"]}


@pytest.fixture(scope="module")
def rows(folder: Path) -> Rows:
    """All programs on two platforms, in one command."""
    sources = [
        *(f"programs.py:{name}" for name in PROGRAMS),
        "custom.py:custom_operator",
        "custom.py:operator_without_shapes",
    ]
    platforms = ("-p", "cpu/jit", "-p", ONNX)
    return rows_once(folder, "report", *sources, *platforms, "--store", "store", "--html", "page.html")


@pytest.fixture(scope="module")
def openvino_rows(folder: Path) -> Rows:
    """What OpenVINO's own conversion does to some of the programs."""
    sources = [
        *(f"programs.py:{name}" for name in ("onnx_branch", "compile_branch", "nested", "reading")),
        "custom.py:custom_operator",
        "custom.py:operator_without_shapes",
    ]
    return rows_once(folder, "openvino", *sources, "-p", OPENVINO)


#: For tests of an export: the runtime, and its rows.
EXPORTED = pytest.mark.parametrize(
    ("platform", "fixture"),
    [(ONNX, "rows"), pytest.param(OPENVINO, "openvino_rows", marks=pytest.mark.nightly)],
)


@pytest.fixture(scope="module")
def more_rows(folder: Path) -> Rows:
    """Further programs on two platforms."""
    return rows_once(folder, "more", *(f"programs.py:{name}" for name in MORE_PROGRAMS), "-p", "cpu/jit", "-p", ONNX)


def line_of(text: str, file: str = "programs.py") -> str:
    """Where the programs have a line of this text."""
    before, there, _ = Path(__file__).with_name(file).read_text().partition(text)
    assert there
    return f"{file}:{before.count(chr(10)) + 1}"


def found(rows: Rows, name: str, platform: str) -> tuple[str, str, str]:
    """The verdict, the culprit and its line."""
    row = rows[name, platform]
    return row["verdict"], row["culprit"]["op"], row["culprit"]["label"]


def test_a_branch_on_onnx_export_is_found_with_its_submodule_and_its_line(rows: Rows) -> None:
    line = line_of("torch.onnx.is_in_onnx_export():")
    assert found(rows, "onnx_branch", ONNX) == ("export", "submodule 1", f"1 ({line})")
    assert f"torch.onnx.is_in_onnx_export() at 1 ({line})" in rows["onnx_branch", ONNX]["detail"]
    # The export's own, and not the captured graph's.
    assert rows["onnx_branch", ONNX]["metrics"]["relative_error"] > 0.1


def test_what_takes_another_branch_only_for_others_is_calm(rows: Rows) -> None:
    for name in ("onnx_branch", "compile_branch", "custom_operator"):
        assert rows[name, "cpu/jit"]["verdict"] == "identical"


@pytest.mark.nightly
def test_what_takes_another_branch_only_for_another_exporter_is_calm(openvino_rows: Rows) -> None:
    assert openvino_rows["onnx_branch", OPENVINO]["verdict"] in ("identical", "rounding")
    assert openvino_rows["onnx_branch", OPENVINO]["own_path"]["status"] in ("same", "rounding")


@EXPORTED
def test_a_branch_on_compilation_is_found_in_every_export(
    request: pytest.FixtureRequest, platform: str, fixture: str
) -> None:
    line = line_of("torch.compiler.is_compiling()")
    rows: Rows = request.getfixturevalue(fixture)
    assert found(rows, "compile_branch", platform) == ("export", "submodule 1.0", f"1.0 ({line})")


def test_another_dtype_of_the_exported_program_is_found(rows: Rows) -> None:
    verdict, culprit, line = found(rows, "promoting", ONNX)
    assert (verdict, culprit) == ("export", "whole program") and line == line_of("y.double() if")
    assert "float64[4,8] where the program returns float32[4,8]" in rows["promoting", ONNX]["detail"]


def test_a_value_frozen_from_an_argument_is_found_with_other_arguments(rows: Rows) -> None:
    verdict, _, line = found(rows, "frozen", "cpu/jit")
    assert verdict == "export" and line == line_of("torch.jit.is_tracing()")
    assert "is wrong on other arguments of the same kind" in rows["frozen", "cpu/jit"]["detail"]
    assert rows["frozen", ONNX]["verdict"] in ("identical", "rounding")


@EXPORTED
def test_a_custom_operator_without_a_translation_fails_at_export(
    request: pytest.FixtureRequest, platform: str, fixture: str
) -> None:
    line = line_of("return tripled(x)", "custom.py")
    rows: Rows = request.getfixturevalue(fixture)
    assert found(rows, "custom_operator", platform) == ("failed", "submodule 1", f"1 ({line})")
    assert "the custom operator mindgap_tests::tripled" in rows["custom_operator", platform]["detail"]


@EXPORTED
def test_a_custom_operator_is_a_failure_where_the_graph_of_its_kernel_is_refused_too(
    request: pytest.FixtureRequest, platform: str, fixture: str
) -> None:
    line = line_of("return torch.ops.mindgap_tests_library.nearest(x)", "custom.py")
    rows: Rows = request.getfixturevalue(fixture)
    assert found(rows, "operator_without_shapes", platform) == ("failed", "submodule 1", f"1 ({line})")
    row = rows["operator_without_shapes", platform]
    assert row["status"] != "unsupported" and "the custom operator mindgap_tests_library::nearest" in row["detail"]
    assert row["advice"].startswith("write it with PyTorch's own operators")


def test_a_program_that_cannot_be_captured_is_compared_by_its_own_export(folder: Path, rows: Rows) -> None:
    line = line_of("x.abs().max().item()")
    assert found(rows, "reading", "cpu/jit") == ("export", "submodule 0", f"0 ({line})")
    assert rows["reading", "cpu/jit"]["advice"].startswith("compute with tensors")
    assert_runs_or_is_open(rows["reading", ONNX])
    (refused,) = json.loads((folder / "report.json").read_text())["refused"]
    assert refused["source"] == "programs:reading" and line in refused["reason"]


@pytest.mark.nightly
def test_a_program_that_cannot_be_captured_is_compared_by_openvino_too(openvino_rows: Rows) -> None:
    assert_runs_or_is_open(openvino_rows["reading", OPENVINO])


def assert_runs_or_is_open(row: dict[str, Any]) -> None:
    calm = row["verdict"] == "identical" or (row["verdict"] == "rounding" and row["weaknesses"])
    assert calm or (row["unjudged"] and "off eager mode" in row["detail"])


@pytest.mark.parametrize(
    ("name", "platform", "advice"),
    [
        ("onnx_branch", ONNX, "leave the branch out"),
        ("frozen", "cpu/jit", "leave the branch out"),
        ("custom_operator", ONNX, "write it with PyTorch's own operators"),
        ("cooling", ONNX, "take what is kept as an argument"),
    ],
)
def test_a_finding_of_an_export_says_what_to_do(rows: Rows, name: str, platform: str, advice: str) -> None:
    assert rows[name, platform]["advice"].startswith(advice)
    assert rows[name, platform]["faults"][0]["advice"].startswith(advice)


def test_sets_of_arguments_have_one_row_and_the_export_of_the_first_is_fed_all(rows: Rows) -> None:
    line = line_of("if torch.jit.is_tracing() else x.mean()")
    assert found(rows, "sets", "cpu/jit") == ("export", "submodule 1", f"1 ({line})")
    assert rows["sets", "cpu/jit"]["detail"].startswith("arguments 2 (arguments 1: export, arguments 3: identical): ")
    assert rows["sets", ONNX]["verdict"] in ("identical", "rounding")
    assert len(rows["sets", ONNX]["digests"]) == 3


def test_dimensions_that_the_source_declares_are_run_at_other_sizes_and_the_submodule_is_named(rows: Rows) -> None:
    line = line_of("count = 4 if torch.compiler.is_exporting() else x.shape[0]\n        return x / count")
    assert found(rows, "declared", ONNX) == ("export", "submodule divided", f"divided ({line})")
    assert "at rows=6: off by" in rows["declared", ONNX]["detail"]
    assert "is right at the exported sizes, rows=2, rows=6, rows=5" in rows["declared", "cpu/jit"]["own_path"]["detail"]


@pytest.mark.nightly
def test_random_numbers_and_training_mode_are_said(more_rows: Rows) -> None:
    own = more_rows["dropping", ONNX]["own_path"]
    assert own["status"] == "not_compared" and "draws random numbers" in own["detail"]
    assert own["training"] == ["1"]
    always = more_rows["dropping_always", "cpu/jit"]["own_path"]
    assert f"at {line_of('nn.functional.dropout(x, 0.5)')} (dropout)" in always["detail"]


@pytest.mark.nightly
def test_a_program_that_writes_to_what_it_holds_is_no_false_finding(more_rows: Rows) -> None:
    assert more_rows["noting", ONNX]["verdict"] in ("identical", "rounding")
    assert more_rows["noting", ONNX]["own_path"]["status"] in ("same", "rounding")
    assert more_rows["noting", "cpu/jit"]["own_path"]["status"] == "not_compared"


@pytest.mark.parametrize(
    ("name", "platform", "culprit", "text"),
    [
        ("cooling", ONNX, "submodule 0", "self.heat = max(1"),
        ("cooling", "cpu/jit", "submodule 0", "self.heat = max(1"),
        pytest.param("counting", ONNX, "whole program", "self.calls.add_(1)", marks=pytest.mark.nightly),
        pytest.param("streaming", ONNX, "whole program", "flat.copy_(joined", marks=pytest.mark.nightly),
    ],
)
def test_an_export_that_does_not_keep_what_the_program_keeps_is_found(
    request: pytest.FixtureRequest, name: str, platform: str, culprit: str, text: str
) -> None:
    rows: Rows = request.getfixturevalue("more_rows" if name in MORE_PROGRAMS else "rows")
    verdict, found_culprit, label = found(rows, name, platform)
    assert (verdict, found_culprit) == ("export", culprit) and line_of(text) in label
    assert "does not keep what the program keeps for its next call" in rows[name, platform]["detail"]


def test_a_program_that_computes_something_else_in_eager_mode_than_where_it_is_traced_is_found(rows: Rows) -> None:
    line = line_of("return self.encoder(x, src_key_padding_mask")
    assert found(rows, "masked", ONNX) == ("export", "submodule encoder", f"encoder ({line})")
    assert "gives other outputs than eager mode in the same process" in rows["masked", ONNX]["detail"]
    assert "torch.export alone gives it" in rows["masked", ONNX]["detail"]
    assert rows["masked", "cpu/jit"]["own_path"]["status"] == "unjudged"


@pytest.mark.nightly
def test_an_argument_that_only_the_program_writes_to_is_said(more_rows: Rows) -> None:
    own = more_rows["caching", ONNX]["own_path"]
    assert own["status"] in ("same", "rounding") and own["detail"].endswith("leaves as they are: cache")


def test_a_refused_graph_whose_own_export_runs_is_judged_on_that(folder: Path) -> None:
    rows = rows_once(folder, "statistics", "programs.py:batch_statistics", "-p", OPENVINO, status=0)
    row = rows["batch_statistics", OPENVINO]
    assert (row["verdict"], row["status"]) == ("rounding", "ok") and row["metrics"]["outputs"] == 1
    assert row["detail"].startswith(
        "judged on the outputs of torch.export.export of the program: the captured graph is"
    )


@pytest.mark.parametrize(
    ("platform", "fixture"),
    [("cpu/jit", "rows"), (ONNX, "rows"), pytest.param(OPENVINO, "openvino_rows", marks=pytest.mark.nightly)],
)
def test_nested_arguments_and_outputs_are_compared(request: pytest.FixtureRequest, platform: str, fixture: str) -> None:
    row = request.getfixturevalue(fixture)["nested", platform]
    assert row["verdict"] in ("identical", "rounding") and row["own_path"]["status"] in ("same", "rounding"), row


def test_what_a_program_asks_is_noted(rows: Rows) -> None:
    line = line_of("os.environ.get(")
    assert rows["nested", ONNX]["own_path"]["asked"] == [f"os.environ['MINDGAP_TESTS_FAST'] at {line}"]


def test_the_page_and_the_report_that_is_read_again_have_it(folder: Path, rows: Rows) -> None:
    from mindgap.results.report_json import decode_report

    report = decode_report((folder / "report.json").read_text())
    again = {(row.model.partition(":")[2], row.platform): row for row in report.rows}
    row = again["compile_branch", ONNX]
    assert row.own_path is not None and row.own_path.status == "differs"
    assert row.culprit is not None and row.culprit.op == "submodule 1.0"
    assert json.loads(report.to_json())["rows"] == [*rows.values()]
    assert "the program asks torch.compiler.is_compiling()" in (folder / "page.html").read_text()


def test_the_store_has_it(folder: Path, rows: Rows) -> None:
    from mindgap.results.from_store import report_of
    from mindgap.results.store import Store

    stored = {(row.model.partition(":")[2], row.platform): row for row in report_of(Store(str(folder / "store"))).rows}
    for (name, platform), row in rows.items():
        # A store holds each set of arguments.
        key = f"{name} ({row['detail'].partition(' (')[0]})" if name == "sets" else name, platform
        if key not in stored:
            # Nor does it hold rows of a program that gave no graph.
            assert name == "reading" or (name == "sets" and row["verdict"] != "export")
            continue
        own = stored[key].own_path
        assert own is not None and own.status == row["own_path"]["status"], key
        if name != "sets":
            assert stored[key].advice == row["advice"]
        assert [each.verdict for each in stored[key].faults] == [each["verdict"] for each in row["faults"]]


@pytest.mark.nightly
def test_it_can_be_left_out(folder: Path) -> None:
    ran = mindgap("diff", "programs.py:onnx_branch", "-p", ONNX, "--no-own-path", "--json", cwd=folder, own_path=True)
    (row,) = json.loads(ran.out)["rows"]
    assert ran.status == 0 and row["own_path"] is None


def test_a_deployed_file_takes_the_place_of_the_export(folder: Path) -> None:
    model, args = programs.onnx_branch()
    torch.onnx.export(model, args, folder / "deployed.onnx", dynamo=True, verbose=False, external_data=False)
    ran = mindgap(
        "diff",
        "programs.py:onnx_branch",
        "-p",
        ONNX,
        "--as",
        f"{ONNX}=deployed.onnx",
        "--json",
        cwd=folder,
        own_path=True,
    )
    (row,) = json.loads(ran.out)["rows"]
    assert ran.status == 1 and row["verdict"] == "export" and row["own_path"]["way"] == "deployed.onnx"
    assert row["detail"].startswith("deployed.onnx gives other outputs than the captured graph on this platform")


def test_a_model_file_is_a_source_and_goes_to_the_runtimes_that_read_it(folder: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"], "/mm"), helper.make_node("Exp", ["m"], ["y"], "/exp")], "g",
        [helper.make_tensor_value_info("x", 1, ["n", 4])], [helper.make_tensor_value_info("y", 1, ["n", 3])],
        [helper.make_tensor("w", 1, [4, 3], [0.1 * i for i in range(12)])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), folder / "mm.onnx")
    ran = mindgap("diff", "mm.onnx", "-p", ONNX, "-p", "cpu/jit", "--set", "n=3", "--json", cwd=folder, own_path=True)
    onnx_row, jit_row = json.loads(ran.out)["rows"]
    assert ran.status == 0 and {onnx_row["verdict"], jit_row["verdict"]} <= {"identical", "rounding"}
    assert onnx_row["own_path"]["way"] == "mm.onnx" and onnx_row["own_path"]["status"] in ("same", "rounding")
    assert jit_row["own_path"] is None, "it reads no such file"


@pytest.mark.parametrize(
    ("referee", "status", "words"),
    [
        ([1.0, 2.0], "differs", "gives what the translated graph gives: the runtime is wrong"),
        ([1.0, 3.0], "unjudged", "mindgap's translation of the file is wrong"),
        ([9.0, 2.0], "differs", "is open: ONNX's reference evaluator gives a third result"),
        (None, "differs", "is open: ONNX's reference evaluator did not run it: no such operator"),
    ],
)
def test_the_reference_evaluator_decides_who_is_wrong_about_a_file(referee: Any, status: str, words: str) -> None:
    eager, runtimes = np.float32([1.0, 2.0]), np.float32([1.0, 3.0])
    run = OwnRun(parse(ONNX), "m.onnx", (runtimes,), (eager,), file=True)
    given = None if referee is None else (np.float32(referee),)
    answer = OwnRun(parse("onnx/reference"), "m.onnx", given, reason="no such operator")
    asked: list[str] = []

    def answers(platform: Any) -> OwnRun | None:
        asked.append(str(platform))
        return answer if platform == "onnx/reference" else None

    found, said, _ = decided_by_reference(run, answers)
    assert asked == ["onnx/reference", "openvino/cpu@precision=f32"][: 2 if "open" in words else 1]
    assert found == status and words in said


def test_another_runtime_decides_where_the_reference_evaluator_cannot() -> None:
    right, wrong = np.float32([1.0, 2.0]), np.float32([1.0, 3.0])
    for name, other in (("openvino/cpu", "onnxruntime/cpu"), ("onnxruntime/cpu", "openvino/cpu@precision=f32")):
        run = OwnRun(parse(name), "m.onnx", (wrong,), (right,), file=True)
        for outputs, status in ((right, "differs"), (wrong, "unjudged")):
            answers = {other: OwnRun(parse(other), "m.onnx", (outputs,))}
            found, said, _ = decided_by_reference(run, lambda platform, given=answers: given.get(str(platform)))
            assert found == status and ("the runtime is wrong" in said) == (status == "differs")


def test_the_reference_kernels_decide_about_a_litert_file() -> None:
    right, wrong = np.float32([1.0, 2.0]), np.float32([1.0, 3.0])
    run = OwnRun(parse("litert/cpu"), "m.tflite", (wrong,), (right,), file=True)
    answers = {"litert/cpu@kernels=reference": OwnRun(parse("litert/cpu@kernels=reference"), "m.tflite", (right,))}
    found, said, _ = decided_by_reference(run, lambda platform: answers[str(platform)])
    assert found == "differs" and "LiteRT's reference kernels gives what the translated graph gives" in said


@pytest.mark.parametrize(
    ("runtimes", "beyond", "word", "verdict"),
    [
        ([1.0, 2.0], False, "same", "identical"),
        ([1.0, 2.0001], False, "rounding", "rounding"),
        ([1.0, 2.01], True, "unjudged", None),
        ([1.0, 4.0], True, "differs", "export"),
    ],
)
def test_a_file_that_runs_where_its_translation_fails_is_judged(
    runtimes: list[float], beyond: bool, word: str, verdict: str | None
) -> None:
    right = np.float32([1.0, 2.0])
    graph = build([right], [("y", "aten.relu.default", "i0")], ["y"])
    failed = Outcome(parse(ONNX), "", "compile_error", message="no Round")
    comparison: Any = SimpleNamespace(
        graph=graph, beyond_rounding=lambda *given: [beyond],
        whole_reference=lambda: Outcome(parse("cpu/eager"), "", "ok", arrays=(right,)),
        context=SimpleNamespace(
            settings=SimpleNamespace(judge=True), run=lambda *given: failed, dtypes=lambda platform: {}
        ),
    )  # fmt: skip
    run = OwnRun(parse(ONNX), "m.onnx", (np.float32(runtimes),), (right,), file=True, source_file=True)
    row = Row("m", parse(ONNX), "compile_error", "failed", message="no Round", blame="platform")
    referee = OwnRun(parse("onnx/reference"), "m.onnx", (right,), file=True)
    found = with_own_path(comparison, row, run, lambda shown: None, lambda: (right,), lambda platform: referee)
    assert found.own_path is not None and (found.own_path.status, found.verdict, found.status) == (word, verdict, "ok")
    assert found.unjudged == (verdict is None) and found.finding == (verdict == "export")
    if verdict != "export":
        assert found.detail == "judged on the outputs of m.onnx: the captured graph fails here (no Round)"
    else:
        assert [each.verdict for each in found.faults] == ["export"]
    message, reasons = "the NPU took none of 1 operators: Floor (1)", (Reason("took_none"),)
    refused = Row("m", parse("onnxruntime/qnn"), "unsupported", None, message=message, reasons=reasons)
    found = with_own_path(comparison, refused, run, lambda shown: None, lambda: (right,), lambda platform: referee)
    assert found.verdict in (None, "export") and (found.status == "unsupported") == (verdict != "export")
    crashed = dataclasses.replace(row, status="crash")
    found = with_own_path(comparison, crashed, run, lambda shown: None, lambda: (right,), lambda platform: referee)
    assert found.finding and "failed" in {each.verdict for each in found.independent_faults}, "the runtime is at fault"


def test_an_error_of_a_translation_is_no_finding_while_the_file_did_not_run(tmp_path: Path) -> None:
    """A session alone runs the file: that the translated graph fails shows nothing of it."""
    graph = build([np.float32([1.0, 2.0])], [("y", "aten.relu.default", "i0")], ["y"])
    file = tmp_path / "m.onnx"
    file.write_bytes(b"")
    with OwnPathClient(30.0, budget_s=0.0) as client:
        late = UserProgram(client, str(file)).run(parse(ONNX))
    assert late is not None and late.source_file and not late.fed
    row = Row("m", parse(ONNX), "compile_error", "failed", message="no Round", blame="platform")
    for status, stays in (("compile_error", False), ("runtime_error", False), ("crash", True)):
        given = dataclasses.replace(row, status=status)
        comparison: Any = SimpleNamespace(graph=graph)
        found = with_own_path(comparison, given, late, lambda shown: None, tuple, lambda platform: late)
        assert found.finding == stays and found.unjudged != stays
        assert stays or ("the time budget was used up" in found.detail and "no Round" in found.detail)


@pytest.mark.parametrize("status", ["ok", "nondeterministic"])
def test_a_failed_export_is_a_finding_also_where_the_captured_graph_gives_other_bits_in_each_run(status: Any) -> None:
    right = np.float32([1.0, 2.0])
    graph = build([right], [("y", "aten.relu.default", "i0")], ["y"])
    run = OwnRun(parse(OPENVINO), "torch.export.export", None, (right,), reason="AttributeError: no __obj_flatten__")
    row = Row("m", parse(OPENVINO), status, "rounding", message="a later run gave other outputs than the first")
    comparison: Any = SimpleNamespace(graph=graph)
    found = with_own_path(comparison, row, run, lambda shown: None, lambda: (right,))
    assert found.verdict == "failed" and "__obj_flatten__" in found.detail


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("deployed.onnx", "write PLATFORM=FILE, as in --as onnxruntime/cpu=model.onnx"),
        (f"{ONNX}=absent.onnx", "no such file"),
        (f"{ONNX}=model.pte", "onnxruntime/cpu reads .onnx"),
        ("cpu/jit=model.onnx", "cpu/jit is not among the platforms: add -p cpu/jit"),
    ],
)
def test_a_file_that_cannot_be_taken_is_an_error_in_one_line(folder: Path, given: str, said: str) -> None:
    ran = mindgap("diff", "programs.py:onnx_branch", "-p", ONNX, "--as", given, cwd=folder, own_path=True)
    (line,) = ran.err.splitlines()
    assert ran.status == 2 and line.startswith(f"mindgap: --as {given}: ") and line.endswith(said)


@pytest.fixture(scope="module")
def sized(folder: Path) -> Rows:
    """Programs exported with a dynamic dimension."""
    sources = [f"programs.py:{name}" for name in ("size_frozen", "size_assumed", "any_size", "pooled")]
    platforms = ("-p", "cpu/jit", "-p", ONNX, "-p", OPENVINO)
    return rows_once(folder, "sized", *sources, *platforms, "--dynamic", "batch=2..8")


@pytest.mark.nightly
def test_one_export_is_run_at_several_sizes(sized: Rows) -> None:
    for platform in ("cpu/jit", ONNX, OPENVINO):
        row = sized["any_size", platform]
        assert row["verdict"] in ("identical", "rounding")
        said = "one export with dynamic dimensions is right at the exported sizes, batch=2, batch=8, batch=5"
        assert row["own_path"]["detail"] == said


@pytest.mark.nightly
def test_a_size_that_was_frozen_into_a_trace_is_found_with_the_line(sized: Rows) -> None:
    assert found(sized, "size_frozen", "cpu/jit") == ("export", "whole program", line_of("count = int("))
    assert "at batch=2: off by" in sized["size_frozen", "cpu/jit"]["detail"]


@pytest.mark.nightly
def test_a_dimension_that_an_export_refuses_is_found(sized: Rows) -> None:
    row = sized["size_frozen", OPENVINO]
    assert row["verdict"] == "export" and "specialized it to be a constant (4)" in row["detail"]


@pytest.mark.parametrize("platform", ["cpu/jit", ONNX, OPENVINO])
@pytest.mark.nightly
def test_a_loop_over_a_dynamic_dimension_is_found_with_the_line(sized: Rows, platform: str) -> None:
    verdict, culprit, label = found(sized, "pooled", platform)
    assert (verdict, culprit) == ("export", "submodule 1") and line_of("torch.stack([(row") in label
    assert sized["pooled", platform]["advice"].startswith("let the dynamic size stay a size")


@pytest.mark.parametrize("platform", [ONNX, OPENVINO])
@pytest.mark.nightly
def test_an_export_that_is_wrong_at_other_sizes_is_found_with_the_line(sized: Rows, platform: str) -> None:
    assert found(sized, "size_assumed", platform) == ("export", "whole program", line_of("count = 4 if"))
    assert "at batch=8: off by 1" in sized["size_assumed", platform]["detail"]


@pytest.mark.parametrize("given", ["batch", "batch=4", "batch=8..2", "batch=-1..4", "batch=2..8,,"])
def test_sizes_that_are_none_are_an_error_in_one_line(given: str) -> None:
    with pytest.raises(MindgapError, match=r"write NAME=LOW\.\.HIGH"):
        parse_sizes(given)


@pytest.mark.nightly
def test_gradients_leave_the_own_export_out_and_say_so(folder: Path) -> None:
    sources = ("programs.py:any_size", "programs.py:reading")
    ran = mindgap("diff", *sources, "-p", "cpu/jit", "--backward", cwd=folder, own_path=True)
    said = "own export of programs:any_size +grad on cpu/jit: not compared: --backward compares gradients"
    assert said in ran.out
    # What cannot be captured has no rows then.
    assert ran.status == 2 and "refused: programs:reading" in ran.err and "1 model × 1 platform" in ran.out


@pytest.mark.parametrize("option", ["--no-own-path", "--backward"])
def test_what_needs_an_export_is_refused_where_none_is_made(folder: Path, option: str) -> None:
    sized = ("--dynamic", "batch=2..8", option)
    ran = mindgap("diff", "programs.py:any_size", "-p", ONNX, *sized, cwd=folder, own_path=True)
    assert ran.status == 2 and "--as and --dynamic need the program's own export" in ran.err


def test_a_dimension_that_no_argument_has_is_an_error(folder: Path) -> None:
    ran = mindgap("diff", "programs.py:any_size", "-p", "cpu/jit", "--dynamic", "n=2..8", cwd=folder, own_path=True)
    said = "mindgap: --dynamic n: no argument has it: name batch, seq or ARGUMENT.DIMENSION; the arguments are "
    assert ran.status == 2 and said in ran.err and not ran.out, "before anything is run"
