"""JUnit XML that a CI system can read, with the right numbers in it."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET

from mindgap.findings.known import Baseline
from mindgap.report import junit_xml
from mindgap.report.junit import fails_if_not_finite
from mindgap.results.rows import NonFinite
from mindgap.workflows.diff import Report
from report.report_sample import sample, with_three_faults


def counts(report: Report) -> tuple[int, int, int, int]:
    root = ET.fromstring(junit_xml(report))
    suites = root.findall("testsuite")
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(root.get(name, "")) == len(root.findall(f".//{tag}")) == sum(int(s.get(name, "")) for s in suites)
    return tuple(int(root.get(name, "")) for name in ("tests", "failures", "errors", "skipped"))  # type: ignore[return-value] # four of them


def test_findings_fail_refused_sources_err_and_null_verdicts_are_skipped() -> None:
    assert counts(sample()) == (13, 5, 1, 2)


def test_known_findings_are_skipped() -> None:
    known = Baseline().updated(sample()).mark(sample())
    assert counts(known) == (13, 0, 1, 7)


def test_each_fault_of_a_row_is_a_case() -> None:
    assert counts(with_three_faults()) == (15, 6, 1, 3)
    root = ET.fromstring(junit_xml(with_three_faults()))
    names = [case.get("name") for case in root.findall(".//testcase[@classname='resnet18']")]
    assert names[3:] == [
        "openvino/cpu@precision=default",
        "openvino/cpu@precision=default: aten.exp.default discrepant",
        "openvino/cpu@precision=default: aten.tanh.default exceptional",
    ]


def test_any_message_gives_well_formed_xml() -> None:
    nasty = 'bell \x07, null \x00, lone \ud800, ]]> & <b> "quoted"'
    rows = tuple(dataclasses.replace(row, message=nasty, detail=nasty) for row in sample().rows)
    root = ET.fromstring(junit_xml(dataclasses.replace(sample(), rows=rows)).encode())
    failure = root.find(".//failure")
    assert failure is not None and '& <b> "quoted"' in (failure.text or "")


def test_a_case_fails_on_request_where_an_output_is_not_finite() -> None:
    rows = [dataclasses.replace(row, non_finite=(NonFinite(1, 2, 40),)) for row in sample().rows[:1]]
    report = dataclasses.replace(sample(), rows=(*rows, *sample().rows[1:]))
    assert counts(report) == (13, 5, 1, 2)
    root = ET.fromstring(junit_xml(report, fails_if_not_finite))
    assert len(root.findall(".//failure")) == 6
    (failure,) = root.findall(".//failure[@type='identical']")
    assert "output 1 is NaN or infinite in 2 of 40 elements" in failure.get("message", "")
