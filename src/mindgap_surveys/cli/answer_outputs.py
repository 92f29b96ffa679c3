"""Writes answers under several conditions: into a store, as JUnit XML, as a page; and gives the exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mindgap.cli.outputs import check_files, each_alone, write_file
from mindgap.cli.streams import Exit
from mindgap.results.answer_rows import AnswerRow, record_answers
from mindgap.results.store import Store

if TYPE_CHECKING:
    from mindgap_surveys.table import StudyTable

_SHOWN: Final = 60
StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="DIR", help="Also write what is found into a store.")
]


@dataclass(frozen=True, slots=True)
class AnswerFiles:
    """Where answers are written, besides standard output."""

    html: Path | None
    junit: Path | None
    store: str | None

    def check(self) -> None:
        """Raises `MindgapError` for a path that cannot be written, before anything runs."""
        check_files(("--html", self.html), ("--junit", self.junit))
        if self.store is not None:
            Store(self.store)

    def write(
        self, kind: str, title: str, lead: str, rows: Sequence[AnswerRow], more: Sequence[StudyTable] = (),
        notes: Sequence[str] = (), settings: Mapping[str, Any] | None = None,
    ) -> Exit:  # fmt: skip
        """Writes each; one that fails costs a line on standard error, and gives a status. `more`: tables of the
        page."""
        wanted = [
            *([] if self.store is None else [partial(self._record, self.store, kind, rows, settings or {})]),
            *([] if self.junit is None else [partial(self._junit, self.junit, rows)]),
            *([] if self.html is None else [partial(self._page, self.html, title, lead, rows, more, notes)]),
        ]
        return Exit.NOTHING_FOUND if each_alone(wanted) else Exit.WRONG_USE

    @staticmethod
    def _record(store: str, kind: str, rows: Sequence[AnswerRow], settings: Mapping[str, Any]) -> None:
        record_answers(Store(store), kind, rows, settings)

    @staticmethod
    def _junit(file: Path, rows: Sequence[AnswerRow]) -> None:
        from mindgap_surveys.report.answer_page import answer_junit

        write_file(file, answer_junit(rows))

    @staticmethod
    def _page(
        file: Path, title: str, lead: str, rows: Sequence[AnswerRow], more: Sequence[StudyTable], notes: Sequence[str]
    ) -> None:
        from mindgap_surveys.report.answer_page import answer_page
        from mindgap_surveys.report.study_page import study_page

        write_file(file, study_page(answer_page(title, lead, rows, more, notes)))


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
