"""The figures count what they say; nothing tried is nothing passed."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from mindgap_campaign.selftest.report import CaseRow, SelftestReport

FAULT = CaseRow(
    graph="g", fault="all scaled", op="aten.exp.default", expected="fault", at_node=100.0, at_node_typical=math.inf,
    at_output=20.0, faulty_nodes=(3,), verdict="discrepant", status="ok", culprit_node=3, culprit_op="aten.exp.default",
    found=True, right=True,
)  # fmt: skip
CALM = replace(FAULT, fault="no fault", expected="benign", at_node=0.0, verdict="identical", found=False, right=False,
               culprit_node=None, culprit_op="")  # fmt: skip
REFUSED = replace(CALM, expected="refusal", status="unsupported", verdict=None)


def test_a_perfect_run_passes() -> None:
    report = SelftestReport((FAULT, CALM, REFUSED))
    assert (report.faults, report.recall, report.culprit_accuracy, report.false_alarms) == (1, 1.0, 1.0, 0)
    assert report.benign == 2 and report.passed


def test_a_miss_a_wrong_culprit_and_an_alarm_each_fail() -> None:
    missed = replace(FAULT, found=False, right=False, verdict="rounding")
    wrong = replace(FAULT, right=False, culprit_node=4)
    alarm = replace(CALM, found=True, verdict="discrepant")
    broken = replace(REFUSED, status="ok", verdict="identical")
    for bad, figure in ((missed, 0.5), (wrong, 1.0), (alarm, 1.0), (broken, 1.0)):
        report = SelftestReport((FAULT, CALM, bad))
        assert not report.passed and report.recall == figure
    assert SelftestReport((FAULT, missed)).culprit_accuracy == 1.0
    assert SelftestReport((FAULT, wrong)).culprit_accuracy == 0.5
    assert SelftestReport((CALM, alarm, broken)).false_alarms == 2


def test_what_does_not_count_is_no_miss() -> None:
    for small in (replace(FAULT, at_node=16.0), replace(FAULT, at_output=16.0)):
        unseen = replace(small, found=False, right=False, verdict="rounding")
        assert not unseen.counts and SelftestReport((FAULT, CALM, unseen)).passed
    typical = replace(FAULT, at_node=10.0, found=False)
    assert SelftestReport((FAULT, typical)).recall == 1.0 and SelftestReport((FAULT, typical)).recall_typical == 0.5


def test_nothing_tried_is_nothing_passed() -> None:
    for report in (SelftestReport(()), SelftestReport((CALM,)), SelftestReport((FAULT,))):
        assert not report.passed
    assert SelftestReport(()).recall is None


def test_json_is_strict_and_whole() -> None:
    data = json.loads(SelftestReport((FAULT, CALM), (("timm:x", "not installed"),), 1.5).to_json())
    assert {"faults": 1, "recall": 1.0, "culprit_accuracy": 1.0, "false_alarms": 0}.items() <= data.items()
    assert data["cases"][0]["at_node_typical"] == "inf" and data["cases"][0]["counts"]
    assert data["skipped"] == [["timm:x", "not installed"]]


def test_text_names_what_went_wrong() -> None:
    wrong = replace(FAULT, right=False, culprit_node=4, culprit_op="aten.sum.default")
    text = SelftestReport((FAULT, wrong, CALM), (("timm:x", "not installed"),)).to_text()
    assert (
        "wrong culprit: all scaled of aten.exp.default in g: discrepant at node 4 aten.sum.default; faulty nodes (3,)"
        in text
    )
    assert "skipped timm:x: not installed" in text and "2 faults: recall 100.0 %" in text
