"""Prints answers under several conditions, writes them into a store, as JUnit XML and as a page; and gives the exit
status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from mindgap.cli.outputs import check_files, each_alone, write_file
from mindgap.cli.streams import Exit
from mindgap.cli.trace import json_text
from mindgap.results.answer_rows import AnswerRow, record_answers
from mindgap.results.store import Store
from mindgap_surveys.cli.study_text import print_page
from mindgap_surveys.report.answer_page import answer_junit
from mindgap_surveys.report.study_page import MOST, StudyPage, study_page

_SHOWN: Final = 60
StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="DIR", help="Also write what is found into a store.")
]


@dataclass(frozen=True, slots=True)
class AnswerFiles:
    """Where answers are written. `as_json`: on standard output, in place of the page."""

    html: Path | None
    junit: Path | None
    store: str | None
    as_json: bool

    def check(self) -> None:
        """Raises `MindgapError` for a path that cannot be written, before anything runs."""
        check_files(("--html", self.html), ("--junit", self.junit))
        if self.store is not None:
            Store(self.store)

    def write(
        self, kind: str, page: StudyPage, rows: Sequence[AnswerRow], document: dict[str, Any], out: TextIO,
        settings: Mapping[str, Any],
    ) -> Exit:  # fmt: skip
        """Prints the page, or the `document` as JSON, and writes each file; one that fails costs a line on standard
        error. Returns the exit status."""
        if self.as_json:
            out.write(json_text(document))
        else:
            print_page(page, out, MOST)
        html, junit, store = self.html, self.junit, self.store
        written = each_alone([
            *([] if store is None else [lambda: record_answers(Store(store), kind, rows, settings)]),
            *([] if junit is None else [lambda: write_file(junit, answer_junit(rows))]),
            *([] if html is None else [lambda: write_file(html, study_page(page))]),
        ])  # fmt: skip
        return status_of_answers(rows) if written else Exit.WRONG_USE


def status_of_answers(rows: Sequence[AnswerRow]) -> Exit:
    """Returns the exit status: findings outweigh what is unknown, and nothing at all is wrong use."""
    states = {row.state for row in rows}
    if "found" in states:
        return Exit.FINDINGS
    return Exit.WRONG_USE if "unknown" in states or not states else Exit.NOTHING_FOUND


def short(prompt: str) -> str:
    """Returns a text as it is printed: quoted, and cut."""
    shown = repr(prompt)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 2] + "…'"
