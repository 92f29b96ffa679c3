"""Writes the tables of a study as files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mindgap.cli.outputs import make_directory, write_file

if TYPE_CHECKING:
    from mindgap_studies.table import StudyTable


def write_tables(folder: Path, tables: Iterable[StudyTable]) -> None:
    """Writes a CSV file for each table into a folder, which is made. Raises `MindgapError` where that fails."""
    from mindgap_studies.table import to_csv

    make_directory(folder)
    for table in tables:
        write_file(folder / f"{table.name}.csv", to_csv(table))
