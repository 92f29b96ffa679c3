"""Writes a report as JUnit XML for CI systems: a suite per model, a case per platform."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

from mindgap.report.words import explain
from mindgap.workflows.diff import Report, Row

#: What XML 1.0 cannot hold; a platform's own message may have anything in it.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


#: Whether a case fails or passes for any row; None where the row decides.
Decision = Callable[[Row], bool | None]


def no_decision(_: Row) -> None:
    """The row decides."""


def fails_if_not_finite(row: Row) -> bool | None:
    """A case fails where an output of the platform has NaN or infinities."""
    return bool(row.non_finite) or None


def junit_xml(report: Report, fails: Decision = no_decision) -> str:
    """Writes JUnit XML: a case for each row, and one for each fault of a row besides the first.

    New findings are failures, unless `fails` decides otherwise of a case. Refused sources, rows on which mindgap failed
    or that were not run or not judged, and a report that compares nothing are errors. Known findings and other rows
    without a verdict are skipped.
    """
    suites = ET.Element("testsuites", name="mindgap")
    for model in report.models:
        rows = [row for row in report.rows if row.model == model.name]
        suite = ET.SubElement(suites, "testsuite", name=xml_text(model.name))
        for row in rows:
            for number, each in enumerate(row.by_fault):
                _case(suite, each, beside=number > 0, fails=fails(each))
    if report.refused:
        suite = ET.SubElement(suites, "testsuite", name="sources")
        for refused in report.refused:
            case = ET.SubElement(suite, "testcase", classname="sources", name=xml_text(refused.source))
            ET.SubElement(case, "error", message=xml_text(refused.reason), type="refused")
    if report.nothing:
        suite = ET.SubElement(suites, "testsuite", name="comparison")
        case = ET.SubElement(suite, "testcase", classname="comparison", name="something was compared")
        ET.SubElement(case, "error", message=xml_text(f"NOTHING WAS COMPARED: {report.nothing}"), type="nothing")
    return junit_text(suites)


def _case(suite: ET.Element, row: Row, *, beside: bool, fails: bool | None) -> None:
    """Writes one case. `beside`: of a fault besides the first, whose case is named by its operator and takes no
    time."""
    seconds = f"{0.0 if beside else row.timings.get('total', 0.0):.3f}"
    name = f"{row.platform}: {row.culprit.op} {row.word}" if beside and row.culprit else row.platform
    case = ET.SubElement(suite, "testcase", classname=xml_text(row.model), name=xml_text(name), time=seconds)
    text = xml_text(explain(row))
    if row.broken:
        ET.SubElement(case, "error", message=text, type="broken").text = xml_text(row.broken)
    elif row.unknown:
        ET.SubElement(case, "error", message=text, type=row.word)
    elif fails and (row.known or not row.finding):
        ET.SubElement(case, "failure", message=text, type=row.word).text = xml_text(row.message)
    elif row.verdict is None:
        ET.SubElement(case, "skipped", message=text)
    elif row.finding and row.known:
        ET.SubElement(case, "skipped", message=f"known finding: {text}")
    elif row.finding and fails is not False:
        failure = ET.SubElement(case, "failure", message=text, type=str(row.verdict))
        failure.text = xml_text("\n".join([row.detail, row.message, *(f"{k}: {v}" for k, v in row.metrics.items())]))
    else:
        ET.SubElement(case, "system-out").text = text


def junit_text(suites: ET.Element) -> str:
    """Writes the numbers of cases into the attributes of suites, and returns the document."""
    for suite in suites:
        cases = suite.findall("testcase")
        suite.set("tests", str(len(cases)))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
    for name in ("tests", "failures", "errors", "skipped"):
        suites.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    ET.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def xml_text(text: str) -> str:
    """Returns the text without what XML 1.0 cannot hold."""
    return _UNPRINTABLE.sub("�", text)
