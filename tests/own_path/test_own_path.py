"""`mindgap diff` takes the program itself the way of each platform's users, and says where that changes it."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.command_line import mindgap
from mindgap.graph import MindgapError
from mindgap.models.corpus.demo import DEMO_PROGRAM
from mindgap.models.own_path.sizes import parse_sizes

from . import programs

PROGRAMS = ("onnx_branch", "compile_branch", "promoting", "frozen", "dropping", "counting", "nested")
ONNX = "onnxruntime/cpu"
OPENVINO = "openvino/cpu@precision=f32"
Rows = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder with the programs, which all test processes share."""
    own = tmp_path_factory.getbasetemp()
    made = (own if worker_id == "master" else own.parent) / "own_path"
    made.mkdir(exist_ok=True)
    for file in (*map(Path(__file__).with_name, ("programs.py", "custom.py")), DEMO_PROGRAM):
        # Renamed, so that no process reads half of a file.
        Path(shutil.copy(file, made / f"{file.name}.{worker_id}")).rename(made / file.name)
    return made


def rows_once(folder: Path, name: str, *arguments: str) -> Rows:
    """The rows of one command, by program and platform. It runs once, whichever test process needs them first."""
    report = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not report.exists():
            ran = mindgap("diff", *arguments, "--json", cwd=folder, own_path=True)
            assert ran.status == 1, ran.err
            report.write_text(ran.out)
    return {(row["model"].partition(":")[2], row["platform"]): row for row in json.loads(report.read_text())["rows"]}


@pytest.fixture(scope="module")
def rows(folder: Path) -> Rows:
    """All programs on three platforms, in one command."""
    sources = [*(f"programs.py:{name}" for name in PROGRAMS), "custom.py:custom_operator", f"{DEMO_PROGRAM.name}:make"]
    platforms = ("-p", "cpu/jit", "-p", ONNX, "-p", OPENVINO)
    return rows_once(folder, "report", *sources, *platforms, "--store", "store", "--html", "page.html")


def line_of(text: str, file: str = "programs.py") -> str:
    """Where the programs have a line of this text."""
    path = DEMO_PROGRAM if file == DEMO_PROGRAM.name else Path(__file__).with_name(file)
    lines = path.read_text().splitlines()
    return f"{file}:{next(number for number, line in enumerate(lines, 1) if text in line)}"


def found(rows: Rows, name: str, platform: str) -> tuple[str, str, str]:
    """The verdict, the culprit and its line."""
    row = rows[name, platform]
    return row["verdict"], row["culprit"]["op"], row["culprit"]["label"]


def test_a_branch_on_onnx_export_is_found_with_its_submodule_and_its_line(rows: Rows) -> None:
    line = line_of("torch.onnx.is_in_onnx_export():")
    assert found(rows, "onnx_branch", ONNX) == ("export", "submodule 1", f"1 ({line})")
    assert f"torch.onnx.is_in_onnx_export() at 1 ({line})" in rows["onnx_branch", ONNX]["detail"]


def test_the_program_of_the_demonstration_is_wrong_once_it_is_exported(rows: Rows) -> None:
    line = line_of("torch.compiler.is_compiling():", DEMO_PROGRAM.name)
    for platform in (ONNX, OPENVINO):
        assert found(rows, "make", platform) == ("export", "submodule attention", f"attention ({line})")
    assert rows["make", "cpu/jit"]["verdict"] == "identical"


def test_what_takes_another_branch_only_for_others_is_calm(rows: Rows) -> None:
    assert rows["onnx_branch", "cpu/jit"]["verdict"] == "identical"
    assert rows["onnx_branch", OPENVINO]["verdict"] in ("identical", "rounding")
    assert rows["onnx_branch", OPENVINO]["own_path"]["status"] in ("same", "rounding")


@pytest.mark.parametrize("platform", [ONNX, OPENVINO])
def test_a_branch_on_compilation_is_found_in_every_export(rows: Rows, platform: str) -> None:
    line = line_of("torch.compiler.is_compiling()")
    assert found(rows, "compile_branch", platform) == ("export", "submodule 1.0", f"1.0 ({line})")
    assert rows["compile_branch", "cpu/jit"]["verdict"] == "identical"


def test_another_dtype_of_the_exported_program_is_found(rows: Rows) -> None:
    verdict, culprit, line = found(rows, "promoting", ONNX)
    assert (verdict, culprit) == ("export", "whole program") and line == line_of("y.double() if")
    assert "float64[4,8] where the program returns float32[4,8]" in rows["promoting", ONNX]["detail"]


def test_a_value_frozen_from_an_argument_is_found_with_other_arguments(rows: Rows) -> None:
    verdict, _, line = found(rows, "frozen", "cpu/jit")
    assert verdict == "export" and line == line_of("torch.jit.is_tracing()")
    assert "is wrong on others of the same kind" in rows["frozen", "cpu/jit"]["detail"]
    assert rows["frozen", ONNX]["verdict"] in ("identical", "rounding")


@pytest.mark.parametrize("platform", [ONNX, OPENVINO])
def test_a_custom_operator_without_a_translation_fails_at_export(rows: Rows, platform: str) -> None:
    line = line_of("return tripled(x)", "custom.py")
    assert found(rows, "custom_operator", platform) == ("failed", "submodule 1", f"1 ({line})")
    assert "the custom operator mindgap_tests::tripled" in rows["custom_operator", platform]["detail"]
    assert rows["custom_operator", "cpu/jit"]["verdict"] == "identical"


def test_random_numbers_and_training_mode_are_said(rows: Rows) -> None:
    own = rows["dropping", ONNX]["own_path"]
    assert own["status"] == "not_compared" and "draws random numbers" in own["detail"]
    assert own["training"] == ["1"]


def test_a_program_that_writes_to_what_it_holds_is_no_false_finding(rows: Rows) -> None:
    assert rows["counting", ONNX]["verdict"] in ("identical", "rounding")
    assert rows["counting", ONNX]["own_path"]["status"] in ("same", "rounding")
    assert rows["counting", "cpu/jit"]["own_path"]["status"] == "not_compared"


def test_nested_arguments_and_outputs_are_compared_and_questions_are_noted(rows: Rows) -> None:
    for platform in ("cpu/jit", ONNX, OPENVINO):
        row = rows["nested", platform]
        assert row["verdict"] in ("identical", "rounding") and row["own_path"]["status"] in ("same", "rounding"), row
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
    for key, row in rows.items():
        own = stored[key].own_path
        assert own is not None and own.status == row["own_path"]["status"]
        assert [each.verdict for each in stored[key].faults] == [each["verdict"] for each in row["faults"]]


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
    sources = [f"programs.py:{name}" for name in ("size_frozen", "size_assumed", "any_size")]
    platforms = ("-p", "cpu/jit", "-p", ONNX, "-p", OPENVINO)
    return rows_once(folder, "sized", *sources, *platforms, "--dynamic", "batch=2..8")


def test_one_export_is_run_at_several_sizes(sized: Rows) -> None:
    for platform in ("cpu/jit", ONNX, OPENVINO):
        row = sized["any_size", platform]
        assert row["verdict"] in ("identical", "rounding")
        said = "one export with dynamic dimensions is right at the exported sizes, batch=2, batch=8, batch=5"
        assert row["own_path"]["detail"] == said


def test_a_size_that_was_frozen_into_a_trace_is_found_with_the_line(sized: Rows) -> None:
    assert found(sized, "size_frozen", "cpu/jit") == ("export", "whole program", line_of("count = int("))
    assert "at batch=2: off by" in sized["size_frozen", "cpu/jit"]["detail"]


def test_a_dimension_that_an_export_refuses_is_found(sized: Rows) -> None:
    row = sized["size_frozen", OPENVINO]
    assert row["verdict"] == "export" and "specialized it to be a constant (4)" in row["detail"]


@pytest.mark.parametrize("platform", [ONNX, OPENVINO])
def test_an_export_that_is_wrong_at_other_sizes_is_found_with_the_line(sized: Rows, platform: str) -> None:
    assert found(sized, "size_assumed", platform) == ("export", "whole program", line_of("count = 4 if"))
    assert "at batch=8: off by 1" in sized["size_assumed", platform]["detail"]


@pytest.mark.parametrize("given", ["batch", "batch=4", "batch=8..2", "batch=0..4", "batch=2..8,,"])
def test_sizes_that_are_none_are_an_error_in_one_line(given: str) -> None:
    with pytest.raises(MindgapError, match=r"write NAME=LOW\.\.HIGH"):
        parse_sizes(given)


@pytest.mark.parametrize("option", ["--no-own-path", "--backward", "--capture-env=absent"])
def test_what_needs_an_export_is_refused_where_none_is_made(folder: Path, option: str) -> None:
    sized = ("--dynamic", "batch=2..8", option)
    ran = mindgap("diff", "programs.py:any_size", "-p", ONNX, *sized, cwd=folder, own_path=True)
    assert ran.status == 2 and "--as and --dynamic need the program's own export" in ran.err
