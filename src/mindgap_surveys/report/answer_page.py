"""Lays out answers under several conditions as a page of tables, and writes them as JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

from mindgap.report.junit import junit_text, xml_text
from mindgap.results.answer_rows import AnswerRow
from mindgap_surveys.report.study_page import Section, StudyPage, Text
from mindgap_surveys.table import StudyTable

_COLUMNS = ("what changes", "to", "verdict of the answer", "numbers", "detail")


def answer_page(
    title: str, lead: str, rows: Sequence[AnswerRow], more: Sequence[StudyTable] = (), notes: Sequence[str] = ()
) -> StudyPage:
    """Lays out a table for each subject on each platform. Answers to one question with the same verdict, class of bits
    and detail are one line, with the largest of their numbers. `more`: further tables."""
    lines: dict[str, dict[object, list[AnswerRow]]] = {}
    for row in rows:
        key = row.question, row.verdict, row.detail, row.numbers.get("classes")
        lines.setdefault(f"{row.subject} on {row.platform}", {}).setdefault(key, []).append(row)
    tables = [StudyTable("", name, _COLUMNS, tuple(map(_line, same.values()))) for name, same in lines.items()]
    sections = tuple(Section(f"s{n}", table.title, (table,)) for n, table in enumerate((*tables, *more)))
    return StudyPage(title, tuple(map(Text, (lead, *notes))), sections)


def _line(same: Sequence[AnswerRow]) -> tuple[str, ...]:
    first, labels = same[0], ", ".join(row.label for row in same)
    largest = {name: max(row.numbers.get(name, 0) for row in same) for name in first.numbers}
    return first.question, labels, first.verdict.replace("_", " "), numbers_text(largest), first.detail


def numbers_text(numbers: Mapping[str, float]) -> str:
    """Returns `name number, …`, of numbers above 0."""
    return ", ".join(f"{name} {number:.4g}" for name, number in numbers.items() if number > 0)


def answer_junit(rows: Sequence[AnswerRow]) -> str:
    """Writes JUnit XML: a suite for each subject, a case for each answer. A finding is a failure; an answer that did
    not run or is not judged is an error."""
    suites = ET.Element("testsuites", name="mindgap")
    for subject in dict.fromkeys(row.subject for row in rows):
        suite = ET.SubElement(suites, "testsuite", name=xml_text(subject))
        for row in (each for each in rows if each.subject == subject):
            name = xml_text(f"{row.platform}: {row.question}: {row.label}")
            case = ET.SubElement(suite, "testcase", classname=xml_text(subject), name=name)
            text = xml_text(" ".join(filter(None, (row.verdict, numbers_text(row.numbers), row.detail))))
            if row.state == "passed":
                ET.SubElement(case, "system-out").text = text
            else:
                ET.SubElement(case, "failure" if row.state == "found" else "error", message=text, type=row.verdict)
    return junit_text(suites)
