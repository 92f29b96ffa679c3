"""Defines one table of a study: the question, the query, and its rows."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow has no types)

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mindgap.store import Store


@dataclass(frozen=True, slots=True)
class StudyTable:
    """`name` never changes: CSV files and JSON keys are called so. `query` is DuckDB's SQL over the store's tables, in
    which `$run` is the run. Cells are text, integers, floats (shares are of 1), or None where there is no such figure:
    a share of nothing is None and never zero. `note` says what is counted; `empty` why there may be no rows.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str
    query: str
    empty: str = ""


def asked(store: Store, run: str, *, name: str, title: str, note: str, query: str, empty: str) -> StudyTable:
    """The table that a query gives. Raises `StoreError` for a damaged store."""
    found = store.query(query, {"run": run} if "$run" in query else None)
    columns: list[list[Any]] = [column.to_pylist() for column in found.columns]
    return StudyTable(name, title, tuple(found.column_names), tuple(zip(*columns, strict=True)), note, query, empty)


def records(table: StudyTable) -> list[dict[str, Any]]:
    """A dict per row."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def column(table: StudyTable, name: str) -> list[Any]:
    """One column's cells, from top to bottom."""
    place = table.columns.index(name)
    return [row[place] for row in table.rows]


def to_csv(table: StudyTable) -> str:
    """A heading and a line per row, as RFC 4180 has it but for lines that end in a line feed; None is nothing."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(plain(row) for row in table.rows)
    return out.getvalue()


def plain(row: Sequence[Any]) -> list[Any]:
    """Cells for a file: names in a list are joined by a space."""
    return [" ".join(map(str, cell)) if isinstance(cell, list) else cell for cell in row]
