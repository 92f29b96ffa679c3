"""What is allowed is known up to its ceiling, and nothing else is."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cli.command_line import mindgap
from mindgap.findings.allowed import Allowance, mark_allowed, parse_allowance, project_allowances
from mindgap.graph import MindgapError
from mindgap.graph.compare.culprit import Culprit, DtypePolicy, culprit_of
from mindgap.graph.compare.verdict import Fault
from mindgap.platforms.name import parse
from mindgap.results.advice import advised
from mindgap.results.rows import Row
from mindgap.workflows.diff import Report
from report.report_sample import sample

PRODUCTS = DtypePolicy("float32", "bfloat16", products=True)
LINE = "openvino/cpu: float32 products in bfloat16"


def report(*culprits: Culprit, platform: str = "openvino/cpu", size: float | None = 0.005) -> Report:
    """One model on one platform, with a fault for each culprit."""
    faults = tuple(Fault(each, "reduced_precision", "platform") for each in culprits)
    metrics = {} if size is None else {"relative_error": size}
    row = Row("resnet18", parse(platform), "ok", "reduced_precision", metrics, culprits[0], "platform", faults=faults)
    return dataclasses.replace(sample(), models=sample().models[:1], rows=(row,), refused=())


@pytest.mark.parametrize(
    ("found", "line", "known"),
    [
        (report(PRODUCTS), LINE, True),
        (report(PRODUCTS), "openvino/*: float32 products computed in bfloat16", True),
        (report(PRODUCTS), f"{LINE}, max_relative=0.01", True),
        (report(PRODUCTS), f"{LINE}, max_relative = 1e-3", False),
        (report(PRODUCTS, size=None), f"{LINE}, max_relative=0.01", False),
        # An option that promises float32 is not what was allowed.
        (report(PRODUCTS, platform="openvino/cpu@precision=f32"), LINE, False),
        (report(DtypePolicy("float32", "bfloat16")), LINE, False),
        (report(culprit_of(3, "aten.gelu.default")), "openvino/cpu: aten.gelu.*", True),
        (report(culprit_of(3, "aten.gelu.default")), "openvino/cpu: aten.exp.*", False),
        (report(PRODUCTS, culprit_of(3, "aten.gelu.default")), LINE, False),
    ],
)
def test_what_is_allowed_is_known(found: Report, line: str, known: bool) -> None:
    marked, _ = mark_allowed(found, [line])
    assert marked.rows[0].known == known and (marked.totals.new == 0) == known


def test_what_is_allowed_needs_no_advice_and_a_work_around_of_a_ledger_stays() -> None:
    accepted = advised(report(PRODUCTS).rows[0])
    known = accepted.with_known([True])
    assert "to accept it" in accepted.advice
    marked, _ = mark_allowed(dataclasses.replace(report(PRODUCTS), rows=(accepted, known)), [LINE])
    assert [row.advice for row in marked.rows] == ["", known.advice]
    assert [row.faults[0].advice for row in marked.rows] == ["", known.faults[0].advice]


def test_a_fault_beside_an_allowed_one_is_new() -> None:
    marked, _ = mark_allowed(report(PRODUCTS, culprit_of(3, "aten.gelu.default")), [LINE])
    assert [each.known for each in marked.rows[0].faults] == [True, False]
    assert (marked.totals.new, marked.totals.new_faults) == (1, 1)


def test_a_person_is_told_of_what_is_too_large_and_of_what_is_not_needed() -> None:
    _, notes = mark_allowed(report(PRODUCTS), [f"{LINE}, max_relative=0.001", "openvino/*: int8 saturates", "tvm/*: x"])
    assert notes == (
        f"above what is allowed ({LINE}, max_relative=0.001): resnet18 on openvino/cpu, with a relative error of 0.005",
        "allowed, and not found: openvino/*: int8 saturates",
    )


@pytest.mark.parametrize("text", ["", "openvino/cpu", "openvino/cpu:x", f"{LINE}, max=1", f"{LINE}, max_relative=0"])
def test_a_line_that_is_wrong(text: str) -> None:
    with pytest.raises(MindgapError, match=r"^--allow '"):
        parse_allowance(text)


def test_the_closest_pyproject_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.mindgap]\nallow = ['{LINE}', {{ platform = 'tvm/cpu', what = 'aten.*', max_relative = 0.01 }}]\n"
    )
    assert project_allowances(inner) == (parse_allowance(LINE), Allowance("tvm/cpu", "aten.*", 0.01))
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert project_allowances(inner) == ()


ENTRIES = ["3", "'x'", "{ platform = 'a' }", "{ platform = 'a', what = 'b', max_relative = 'c' }"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_pyproject_that_is_wrong_is_one_line_before_anything_runs(tmp_path: Path, entry: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.mindgap]\nallow = [{entry}]\n")
    with pytest.raises(MindgapError, match=r"pyproject\.toml: \[tool\.mindgap\] allow:") as raised:
        project_allowances(tmp_path)
    assert "\n" not in str(raised.value)


def test_an_unknown_key_of_the_project_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.mindgap]\nalow = ['x: y']\n")
    with pytest.raises(MindgapError, match=r"pyproject\.toml: \[tool\.mindgap\] has no 'alow'; its one key is allow"):
        project_allowances(tmp_path)


@pytest.mark.nightly
def test_diff_passes_with_what_the_project_allows(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\ndef make():\n    torch.manual_seed(0)\n    return torch.nn.Linear(9, 9), (torch.randn(4, 9),)\n"
    )
    platform = "cpu/eager@autocast=bfloat16"
    allow = f"allow = [ '{platform}: float32 products in bfloat16' ]"
    (tmp_path / "pyproject.toml").write_text(f"[tool.mindgap]\n{allow}\n")
    ran = mindgap("diff", "model.py:make", "-p", platform, cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert "reduced precision (known)" in ran.out and "1 finding (0 new)" in ran.out
    (tmp_path / "pyproject.toml").write_text("[tool.mindgap]\nallow = ['cpu/eager']\n")
    ran = mindgap("diff", "model.py:make", "-p", platform, cwd=tmp_path)
    assert ran.status == 2 and ran.out == "" and "pyproject.toml" in ran.err
