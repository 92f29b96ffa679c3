"""Defines one table of a study or a survey: the question, the query, and its rows."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow has no types)

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mindgap.results.store import Store


@dataclass(frozen=True, slots=True)
class StudyTable:
    """A table with the query that computed it, if one did.

    `name`: names CSV files and JSON keys, and never changes. `query`: DuckDB SQL over the store's tables; `$run` is the
    run; empty for a table that is not of a store. Cells are text, integers, floats (shares are fractions of 1) or None:
    a share of nothing is None, not zero. `note`: explains the counts. `empty`: explains a table without rows.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    query: str = ""
    empty: str = ""


@dataclass(frozen=True, slots=True)
class StudyTables:
    """Tables in the order in which a reader wants them."""

    tables: tuple[StudyTable, ...]

    def table(self, name: str) -> StudyTable:
        return next(table for table in self.tables if table.name == name)


def tables_object(tables: Iterable[StudyTable]) -> dict[str, Any]:
    """Returns the tables by name, each with title, note, columns and rows, as JSON writes them."""
    return {
        each.name: {"title": each.title, "note": each.note, "columns": each.columns, "rows": each.rows}
        for each in tables
    }


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A table of a store that is yet to be computed; fields as of `StudyTable`."""

    name: str
    title: str
    query: str
    note: str
    empty: str

    def table(self, store: Store, run: str) -> StudyTable:
        """Runs the query. Raises `StoreError` for a damaged store."""
        query = self.query.strip()
        answer = store.query(query, {"run": run} if "$run" in query else None)
        columns: list[list[Any]] = [column.to_pylist() for column in answer.columns]
        rows = tuple(zip(*columns, strict=True))
        return StudyTable(self.name, self.title, tuple(answer.column_names), rows, self.note, query, self.empty)


def records(table: StudyTable) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def column(table: StudyTable, name: str) -> list[Any]:
    index = table.columns.index(name)
    return [row[index] for row in table.rows]


def to_csv(table: StudyTable) -> str:
    """Writes a header and one line per row as in RFC 4180, with line feeds as line ends; None is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(plain(row) for row in table.rows)
    return out.getvalue()


def plain(row: Sequence[Any]) -> list[Any]:
    """Converts cells for a file: lists become text, joined by spaces."""
    return [" ".join(map(str, cell)) if isinstance(cell, list) else cell for cell in row]


def made(
    name: str, title: str, columns: str | Iterable[str], rows: Iterable[tuple[Any, ...]], note: str = ""
) -> StudyTable:
    """Makes a table that code computed, and no query of a store. `columns`: also as one text, separated by spaces."""
    names = columns.split() if isinstance(columns, str) else columns
    return StudyTable(name, title, tuple(names), tuple(rows), note)
