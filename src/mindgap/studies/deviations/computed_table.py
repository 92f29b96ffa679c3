"""Makes tables that code computed, and no query of a store."""

from __future__ import annotations

from typing import Any

from mindgap.studies.table import StudyTable


def made(name: str, title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]], note: str) -> StudyTable:
    """Makes a table that code computed, and no query of a store."""
    return StudyTable(name, title, columns, tuple(rows), note, query="")
