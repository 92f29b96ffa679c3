"""A baseline knows what it was given, and nothing else."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mindgap.findings.known import Baseline, Known
from mindgap.graph import MindgapError
from mindgap.graph.compare.culprit import culprit_of
from mindgap.graph.compare.verdict import Fault
from mindgap.workflows.diff import Report
from report.report_sample import sample


def test_it_comes_back_from_its_file(tmp_path: Path) -> None:
    baseline = Baseline().updated(sample())
    file = tmp_path / "baseline.json"
    file.write_text(baseline.text(), encoding="utf-8")
    assert Baseline.load(file) == baseline
    assert len(baseline.known) == len(sample().findings) == 5


def test_marked_findings_are_no_longer_new() -> None:
    report = Baseline().updated(sample()).mark(sample())
    assert report.totals.known == 5 and report.totals.new == 0
    assert not any(row.known for row in report.rows if not row.finding)


def test_another_culprit_is_a_new_finding() -> None:
    baseline = Baseline().updated(sample())
    moved = tuple(
        dataclasses.replace(r, culprit=culprit_of(8, "aten.exp.default")) if r.word == "discrepant" else r
        for r in sample().rows
    )
    report = baseline.mark(dataclasses.replace(sample(), rows=moved))
    assert [row.word for row in report.new_findings] == ["discrepant"]


def sorter(label: str, *nodes: int, size: float = 1e-3, digest: str = "d", op: str = "aten.sort.default") -> Report:
    """The sorter alone, with one fault."""
    report = sample()
    fault = Fault(culprit_of(nodes[0], op, label), "discrepant", "platform", nodes)
    row = next(r for r in report.rows if r.word == "discrepant")
    row = dataclasses.replace(row, culprit=fault.culprit, faults=(fault,), metrics={"relative_error": size})
    return dataclasses.replace(report, models=(dataclasses.replace(report.models[2], digest=digest),), rows=(row,))


@pytest.mark.parametrize(
    ("then", "new"),
    [
        (sorter("a (m.py:4)", 2, 5), False),
        (sorter("a (m.py:4)", 5), False),
        # The same operator is wrong at another node of the same graph, whatever its line.
        (sorter("a (m.py:4)", 2, 9), True),
        (sorter("b (m.py:8)", 9), True),
        # Lines or nodes of another graph have moved.
        (sorter("a (m.py:6)", 3, 6, digest="other"), False),
        (sorter("m.py:6", 2, 5, digest="other"), False),
        (sorter("b (m.py:8)", 9, digest="other"), True),
        (sorter("a (m.py:4)", 2, 5, 9, digest="other"), True),
        # Sizes vary with weights and inputs, not fivefold.
        (sorter("a (m.py:4)", 2, 5, size=4.9e-3), False),
        (sorter("a (m.py:4)", 2, 5, size=5.1e-3), True),
        (sorter("a (m.py:4)", 2, 5, size=1e-9), False),
        (sorter("a (m.py:4)", 2, 5, op="aten.topk.default"), True),
    ],
)
def test_another_place_or_a_larger_size_is_new(then: Report, new: bool, tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(Baseline().updated(sorter("a (m.py:4)", 2, 5)).text())
    marked = Baseline.load(file).mark(then)
    assert bool(marked.new_findings) == new and marked.rows[0].faults[0].known != new


def test_more_elements_of_another_class_are_larger() -> None:
    report = sample()
    row = next(r for r in report.rows if r.word == "exceptional")
    then = [dataclasses.replace(row, metrics={"nan_mismatch": count}) for count in (3, 14, 15)]
    known = Baseline().updated(dataclasses.replace(report, rows=(then[0],)))
    new = [bool(known.mark(dataclasses.replace(report, rows=(each,))).new_findings) for each in then]
    assert new == [False, False, True]


NODES = {"aten.sort.default": 2, "aten.exp.default": 7}


def with_faults(*ops: str) -> Report:
    """The sample, the sorter's wrong row with these faults."""
    faults = tuple(Fault(culprit_of(node, op), "discrepant", "platform", (node,)) for op in ops for node in [NODES[op]])
    rows = tuple(
        dataclasses.replace(r, culprit=faults[0].culprit, faults=faults) if r.word == "discrepant" else r
        for r in sample().rows
    )
    return dataclasses.replace(sample(), rows=rows)


@pytest.mark.parametrize(
    "order", [("aten.sort.default", "aten.exp.default"), ("aten.exp.default", "aten.sort.default")]
)
def test_a_new_fault_beside_a_known_one_is_new(order: tuple[str, ...]) -> None:
    report = Baseline().updated(sample()).mark(with_faults(*order))
    (row,) = report.new_findings
    assert [(each.culprit.op, each.known) for each in row.faults if each.culprit] == [
        (op, op == "aten.sort.default") for op in order
    ]
    assert (report.totals.findings, report.totals.faults) == (5, 6)
    assert (report.totals.new, report.totals.new_faults) == (1, 1)


def test_a_fault_that_is_gone_is_told_though_its_row_still_has_another() -> None:
    two = Baseline().updated(with_faults("aten.sort.default", "aten.exp.default"))
    assert len(two.known) == 6 and not two.mark(with_faults("aten.sort.default", "aten.exp.default")).new_findings
    (gone,) = two.gone(with_faults("aten.sort.default"))
    assert gone.culprit == "aten.exp.default"
    assert not two.mark(with_faults("aten.sort.default")).new_findings


def test_an_update_keeps_what_did_not_run_and_drops_what_is_gone() -> None:
    elsewhere = Known("other", "cuda/eager", "failed")
    healed = Known("resnet18", "cpu/inductor", "discrepant", "aten.mm.default")
    before = Baseline(frozenset({elsewhere, healed}))
    after = before.updated(sample())
    assert elsewhere in after.known and healed not in after.known
    assert before.gone(sample()) == (healed,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"mindgap_baseline": 3, "findings": []}',
        '{"mindgap_baseline": 1, "findings": []}',
        '{"mindgap_baseline": 2}',
        '{"mindgap_baseline": 2, "findings": [{"model": "m"}]}',
        '{"mindgap_baseline": 2, "findings": [{"model": 1, "platform": "", "verdict": "", "culprit": ""}]}',
        '{"mindgap_baseline": 2, "findings": [{"model": "", "platform": "", "verdict": "", "culprit": "", "x": 3}]}',
    ],
)
def test_a_damaged_baseline_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises(MindgapError) as refused:
        Baseline.load(file)
    assert str(file) in str(refused.value) and "\n" not in str(refused.value)


def test_a_missing_baseline_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(MindgapError, match="--update-baseline"):
        Baseline.load(tmp_path / "none.json")
