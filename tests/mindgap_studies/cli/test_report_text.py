"""What `mindgap diff` prints: whole lines in a pipe, and no line wider than the terminal on a terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cli.command_line import MODELS, mindgap
from mindgap.cli.tables import print_report, remark
from mindgap.graph.compare.culprit import DtypePolicy, Example, culprit_of
from mindgap.graph.compare.row_metrics import RowMetrics
from mindgap.graph.compare.verdict import Fault, Verdict, Weakness
from mindgap.platforms.name import parse
from mindgap.report.finding_blocks import blocks
from mindgap.results.drawn_graph import DrawnNode
from mindgap.results.rows import Row
from mindgap.workflows.diff import Report
from mindgap_surveys.cli.study_text import table_parts
from mindgap_surveys.report.study_page import cell_text, view_of
from mindgap_surveys.table import StudyTable
from report.report_sample import metrics, sample, with_three_faults

EXPECTED = Path(__file__).with_name("report_text.txt")
OPENVINO_SAYS = (
    "aten.fft_fft.default: Check 'false' failed at src/frontends/unconverted_ops_report.cpp:151:\n"
    "FrontEnd API failed with OpConversionFailure:\nModel wasn't fully converted. Failed operations detailed log:\n"
    "Summary:\n-- No conversion rule found for operations: aten._fft_r2c.default, aten.i0.default\n"
)
TVM_SAYS = "\x1b[31mno kernel for x\x1b[0m\nmore"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def one_model(file: Path) -> Report:
    """A model with every kind of line: calm, a finding with a line of `file`, a policy, refusals, what did not run."""
    report = sample()
    example = Example("relu(nan)", "0.0", "nan", operands=True)
    detail = f"{example.sentence} (another class on equal operands, on PLATFORM: aten.relu.default)"
    relu = culprit_of(2, "aten.relu.default", f"act ({file.name}:2)")
    rows = (
        Row("m", parse("cpu/jit"), "ok", "identical", metrics(23)),
        Row("m", parse("cpu/inductor"), "ok", "rounding", metrics(20),
            weaknesses=(Weakness(2, "aten.special_i0.default", "bound rule", "the operator has no bound rule"),)),
        *(
            Row("m", parse(name), "ok", "exceptional", {"n": 40, "n_differing": 20, "nan_mismatch": 20, "max_abs": 0.0},
                relu, "platform", detail=detail.replace("PLATFORM", name), example=example)
            for name in ("openvino/cpu", "openvino/cpu@precision=f32")
        ),
        Row("m", parse("ncnn/cpu"), "ok", "reduced_precision", metrics(3), DtypePolicy("float32", "float16"),
            "platform", detail="ncnn/cpu computes float32 in float16, which explains every difference here"),
        Row("m", parse("openvino/cpu@frontend=onnx"), "unsupported", None, message=OPENVINO_SAYS,
            culprit=culprit_of(-1, "aten.fft_fft.default")),
        Row("m", parse("tvm/cpu"), "compile_error", "failed", blame="platform", message=TVM_SAYS,
            culprit=culprit_of(1, "aten.sort.default"), detail=f"compile_error (fails by itself): {TVM_SAYS}"),
        Row("m", parse("iree/cpu"), "not_run", None, detail="the time budget of 80 s is used up"),
        Row("m", parse("jax/cpu"), "ok", None, metrics(2), unjudged=True, detail="no memory was left"),
    )  # fmt: skip
    model = replace(report.models[0], name="m", source=f"{file}:make")
    return replace(report, models=(model,), rows=rows, refused=(), created="2100-01-01T00:00:00+00:00")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "net.py"
    found.write_text("def f(x):\n    return x.relu()\n")
    return found


def printed(report: Report, width: int | None, patch: pytest.MonkeyPatch, **options: bool) -> list[str]:
    """The lines on a terminal of so many columns, or in a pipe."""
    patch.setenv("COLUMNS", str(width or 40))
    patch.setenv("NO_COLOR", "1")
    patch.setenv("TERM", "xterm")
    out = io.StringIO() if width is None else Terminal()
    print_report(report, out, **options)
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in out.getvalue().splitlines()]


def test_one_model_in_a_pipe(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has whole lines, whatever COLUMNS says, and no escape sequence."""
    out = printed(one_model(file), None, monkeypatch)
    assert out == EXPECTED.read_text(encoding="utf-8").replace("FILE", str(file)).splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("options", [{}, {"metrics": True, "verbose": True}])
def test_no_line_is_wider_than_the_terminal(
    file: Path, width: int, options: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for report in (one_model(file), with_three_faults()):
        out = printed(report, width, monkeypatch, **options)
        # A command stays whole: it is there to be copied.
        assert [line for line in out if len(line) > width and "mindgap reduce" not in line] == []
        assert not any(line != line.rstrip() for line in out)
        # Nothing is cut: the words are those of a pipe.
        whole = " ".join(" ".join(printed(report, None, monkeypatch, **options)).split())
        for line in out:
            if not line.startswith(("[", "model ")):
                assert " ".join(line.split()) in whole or len(report.models) > 1, line


def test_a_narrow_terminal(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = "\n".join(printed(one_model(file), 60, monkeypatch))
    assert (
        "  openvino/cpu@frontend=onnx  unsupported\n      aten.fft_fft.default: No conversion rule found for\n" in out
    )
    assert f"  script\n    mindgap reduce {file}:make -p ncnn/cpu\n" in out


def test_a_matrix_is_in_groups_of_columns_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, narrow = (printed(sample(), width, monkeypatch) for width in (100, 60))
    assert "model      [1]              [2]          [3]         [4]" in wide
    assert [line for line in narrow if line.startswith("model ")] == [
        "model      [1]              [2]          [3]", "model      [4]",
    ]  # fmt: skip
    for line in (
        "  tiny_bert on openvino/cpu@precision=default  unsupported",
        "      aten.special_i0.default: not implemented",
    ):
        assert line in narrow


def test_figures_and_reasons_on_request(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calm, full = (
        "\n".join(printed(one_model(file), None, monkeypatch, metrics=more, verbose=more)) for more in (False, True)
    )
    assert calm.count("max ulp 90") == 1 and full.count("max ulp 90") == 4
    assert "has no bound rule" in full and "has no bound rule" not in calm


def test_a_line_is_not_quoted_from_a_file_that_changed(file: Path) -> None:
    report = one_model(file)
    assert "return x.relu()" in blocks(report)[1].text
    assert "return x.relu()" not in blocks(replace(report, created="2001-01-01T00:00:00+00:00"))[1].text
    elsewhere = replace(report, models=(replace(report.models[0], source="other.py:make"),))
    assert "return x.relu()" not in blocks(elsewhere)[1].text


def test_a_policy_is_one_block_for_all_models() -> None:
    report = sample()
    policy = DtypePolicy("float32", "bfloat16", products=True)
    platform = parse("openvino/cpu")
    rows = tuple(
        Row(m.name, platform, "ok", "reduced_precision", metrics(2), policy, "platform") for m in report.models
    )
    (block,) = blocks(replace(report, rows=rows))
    assert block.title == "reduced precision: resnet18, tiny_bert, sorter on openvino/cpu"
    assert "evidence" not in dict(block.fields)
    few = Weakness(4, "aten.addmm.default", "dtype policy", "4 of 90 nodes were run alone")
    (block,) = blocks(replace(report, rows=(replace(rows[0], weaknesses=(few,)), *rows[1:])))
    assert dict(block.fields)["evidence"] == f"{few.reason} (resnet18)"


def test_a_policy_of_several_models_has_the_size_of_each_and_the_nodes_of_none() -> None:
    report, policy = sample(), DtypePolicy("float32", "bfloat16", products=True)
    rows = tuple(
        Row(model.name, parse("openvino/cpu"), "ok", "reduced_precision", {"max_abs": 0.1 * number}, policy, "platform",
            faults=(Fault(policy, "reduced_precision", "platform", (number, number + 4)),))
        for number, model in enumerate(report.models, 1)
    )  # fmt: skip
    (block,) = blocks(replace(report, rows=rows))
    assert dict(block.fields)["culprit"] == policy.op
    assert dict(block.fields)["size"].splitlines() == [
        "max abs 0.1 (resnet18)", "max abs 0.2 (tiny_bert)", "max abs 0.3 (sorter)",
    ]  # fmt: skip


def test_rows_with_other_lines_share_no_block() -> None:
    rows = tuple(
        Row("m", parse(name), "ok", "discrepant", {"max_abs": size}, culprit_of(2, "aten.relu.default", f"m.py:{line}"))
        for name, size, line in (("cpu/jit", 0.5, 3), ("cpu/inductor", 0.7, 9))
    )
    found = [dict(block.fields) for block in blocks(replace(sample(), rows=rows))]
    assert [(each["line"], each["size"]) for each in found] == [("m.py:3", "max abs 0.5"), ("m.py:9", "max abs 0.7")]


def test_a_size_that_one_platform_alone_has_is_named() -> None:
    rows = tuple(
        Row("m", parse(name), "ok", "discrepant", sizes, culprit_of(2, "aten.relu.default", ""))
        for name, sizes in (("cpu/jit", {"max_abs": 0.5}), ("cpu/inductor", {}))
    )
    (block,) = blocks(replace(sample(), rows=rows))
    assert dict(block.fields)["size"] == "max abs 0.5 (cpu/jit)"


FAULTS = '[[fault]]\nkind = "scaled"\nfactor = 1.5\nwhen = { op = "aten.gelu*" }\n'


@pytest.mark.nightly
def test_a_real_finding_on_a_terminal_and_in_a_pipe(tmp_path: Path) -> None:
    """A pseudo-terminal of 100 columns has the block of a pipe."""
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "faults.toml").write_text(FAULTS)
    arguments = ["diff", "models.py:calm", "-p", "faulty/eager@faults=faults.toml"]
    ran = mindgap(*arguments, cwd=tmp_path)
    assert ran.status == 1, ran.err
    lines = ran.out.splitlines()
    assert "discrepant: models:calm on faulty/eager@faults=faults.toml" in lines
    assert "  culprit  aten.gelu.default (node 1)" in lines and "  blame    platform" in lines
    assert "  script   mindgap reduce models.py:calm -p faulty/eager@faults=faults.toml" in lines
    assert lines[-1] == "1 model × 1 platform against cpu/eager: 1 discrepant; 1 finding"
    parent, child = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "MINDGAP_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        [sys.executable, "-m", "mindgap", *arguments], cwd=tmp_path, env=environment, stdout=child,
        stderr=subprocess.DEVNULL,
    ):  # fmt: skip
        os.close(child)
        data = b""
        # Linux raises where the other end is closed.
        while True:
            try:
                data += (part := os.read(parent, 1 << 16))
            except OSError:
                break
            if not part:
                break
    os.close(parent)
    shown = re.sub(r"\x1b\[[\d;]*m", "", data.decode()).replace("\r\n", "\n").splitlines()
    assert shown == lines


def test_a_block_of_two_platforms_has_the_evidence_of_both_where_they_differ() -> None:
    culprit = culprit_of(2, "aten.relu.default", "")
    ours, theirs = (
        Row("m", parse(name), "ok", "discrepant", {}, culprit, "platform", detail=detail)
        for name, detail in (("cpu/jit", "0.5 off"), ("cpu/inductor", "0.7 off"))
    )
    (block,) = blocks(replace(sample(), rows=(ours, theirs)))
    assert dict(block.fields)["evidence"] == "0.5 off (cpu/jit)\n0.7 off (cpu/inductor)"


def test_sentences_that_end_the_evidence_of_all_platforms_stand_once() -> None:
    culprit = culprit_of(2, "aten.relu.default", "")
    rows = tuple(
        Row("m", parse(name), "ok", "discrepant", {}, culprit, "platform", detail=f"{size} off. It asks. Why")
        for name, size in (("cpu/jit", 0.5), ("cpu/inductor", 0.7))
    )
    (block,) = blocks(replace(sample(), rows=rows))
    assert dict(block.fields)["evidence"] == "0.5 off (cpu/jit)\n0.7 off (cpu/inductor)\nIt asks. Why"


def test_a_policy_has_the_line_of_its_first_node_where_one_model_shows_it() -> None:
    policy, drawn = DtypePolicy("float64", "float32"), DrawnNode("aten.mul.Tensor", (), (), label="m (m.py:3)", node=4)
    fault = Fault(policy, "reduced_precision", "platform", (4, 7))
    row = Row(
        "m", parse("openvino/cpu"), "ok", "reduced_precision", metrics(2), policy, faults=(fault,), around=(drawn,)
    )
    (block,) = blocks(replace(sample(), rows=(row,)))
    assert dict(block.fields)["line"] == "m (m.py:3)"
    (block,) = blocks(replace(sample(), rows=(row, replace(row, model="other"))))
    assert "line" not in dict(block.fields)


def test_a_calm_row_whose_results_are_others_altogether_gives_the_reason() -> None:
    cases: tuple[tuple[Verdict, RowMetrics, bool], ...] = (
        ("rounding", RowMetrics(relative_error=0.6, n_differing=4), True),
        ("rounding", RowMetrics(relative_error=1e-7, n_differing=4), False),
        ("rounding", RowMetrics(relative_error=1e-7, inf_mismatch=1), True),
        ("ill_conditioned", RowMetrics(relative_error=0.6), True),
    )
    for verdict, measured, shown in cases:
        row = Row("m", parse("cpu/jit"), "ok", verdict, metrics=measured, detail="the order of aten.topk.default")
        assert (remark(row) == row.detail) == shown


def test_a_study_that_is_wider_than_the_terminal_has_several_parts_and_loses_no_figure() -> None:
    """A figure that was cut at the edge read as another one: 1 of 10."""
    figures = {f"rows_of_figure_{n}": 1000 + n for n in range(14)}
    table = StudyTable("wide", "", ("platform", *figures), (("onnxruntime/cpu", *figures.values()),), "", "")
    view = view_of(table)
    out = io.StringIO()
    for part in table_parts(view, 100):
        Console(file=out, width=100).print(part)
    words = out.getvalue().split()
    assert all(words.count(cell_text("rows", each)) == 1 for each in figures.values()), out.getvalue()
    assert words.count("onnxruntime/cpu") > 1 and max(map(len, out.getvalue().splitlines())) <= 100
    assert len(table_parts(view, 500)) == 1
