"""Writes answers under several conditions as a page of tables, and as JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.report.junit import clean, count_cases
from mindgap.report.templates import styles, template_environment
from mindgap.results.answer_rows import AnswerRow

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class TableSection:
    """A table of a page. rows: texts, one for each column. note: a sentence above the table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def answer_sections(rows: Sequence[AnswerRow]) -> list[TableSection]:
    """Returns a table for each subject on each platform."""
    columns = ("what changes", "to", "verdict", "numbers", "detail")
    groups: dict[tuple[str, str], list[AnswerRow]] = {}
    for row in rows:
        groups.setdefault((row.subject, row.platform), []).append(row)
    return [
        TableSection(
            f"{subject} on {platform}", columns,
            tuple((each.question, each.label, each.verdict, numbers_text(each.numbers), each.detail) for each in group),
        )
        for (subject, platform), group in groups.items()
    ]  # fmt: skip


def numbers_text(numbers: Mapping[str, float]) -> str:
    """Returns `name number, …`, of numbers that are not 0."""
    return ", ".join(f"{name} {number:.4g}" for name, number in numbers.items() if number)


def answer_page(title: str, lead: str, sections: Sequence[TableSection], notes: Sequence[str] = ()) -> str:
    """Writes the page, one HTML document without external files."""
    template = template_environment(folder=_HERE).get_template("answers.html.j2")
    return template.render(title=title, lead=lead, sections=sections, notes=notes, css=styles("page.css", folder=_HERE))


def answer_junit(rows: Sequence[AnswerRow]) -> str:
    """Writes JUnit XML: a suite for each subject, a case for each answer. A finding is a failure; an answer that did
    not run or is not judged is an error."""
    suites = ET.Element("testsuites", name="mindgap")
    for subject in dict.fromkeys(row.subject for row in rows):
        suite = ET.SubElement(suites, "testsuite", name=clean(subject))
        for row in (each for each in rows if each.subject == subject):
            name = clean(f"{row.platform}: {row.question}: {row.label}")
            case = ET.SubElement(suite, "testcase", classname=clean(subject), name=name)
            text = clean(" ".join(filter(None, (row.verdict, numbers_text(row.numbers), row.detail))))
            if row.state == "passed":
                ET.SubElement(case, "system-out").text = text
            else:
                ET.SubElement(case, "failure" if row.state == "found" else "error", message=text, type=row.verdict)
        count_cases(suite)
    for name in ("tests", "failures", "errors", "skipped"):
        suites.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    ET.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"
