"""Compares the study's tables with the printed ones, cell by cell."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

from mindgap_surveys.table import StudyTable, made

#: The tables that the paper prints as such. Figures are printed without numbers.
PRINTED: Final = ("table_1", "table_sup1", "table_sup2", "table_sup3")
#: In the transcription, a cell that the extracted text does not hold.
_LOST: Final = "?"
#: What is known about a disagreement, by table, row from 1, and column.
_REMARKS: Final[Mapping[tuple[str, int, str], str]] = {
    ("table_sup1", 9, "device_name"): (
        "The processor's name in the data is AMD EPYC 7B13, as on all other Milan instances. Perhaps an error of the "
        "text that was extracted from the PDF."
    ),
    ("table_sup1", 54, "large_1"): (
        "The output is the same, byte for byte, as on the two other platforms of class 13 (rows 55 and 56). It differs "
        "from those of class 12. Perhaps an error of the text that was extracted from the PDF."
    ),
}


def printed_table(name: str) -> list[list[str]]:
    """Returns a printed table as text: the header, then the rows."""
    text = files("mindgap_studies.deviations.published").joinpath("printed", f"{name}.csv").read_text("utf-8")
    return list(csv.reader(text.splitlines()))


def disagreements(tables: Iterable[StudyTable]) -> StudyTable:
    rows = (row for table in tables if table.name in PRINTED for row in _compared(table))
    cells = sum(cell != _LOST for name in PRINTED for row in printed_table(name)[1:] for cell in row)
    columns = "table row column printed computed remark"
    note = f"Rows count from 1 in the printed order. Compared are {cells} cells: all of {', '.join(PRINTED)}."
    return made("disagreements", "Cells in which data and print disagree", columns, rows, note)


def _compared(table: StudyTable) -> list[tuple[Any, ...]]:
    header, *printed = printed_table(table.name)
    computed = [["" if cell is None else str(cell) for cell in row] for row in table.rows]
    if list(table.columns) != header:
        return [(table.name, 0, None, " ".join(header), " ".join(table.columns), "other columns")]
    rows: list[tuple[Any, ...]] = []
    for number in range(1, max(len(printed), len(computed)) + 1):
        if number > len(printed) or number > len(computed):
            here = [" ".join(each[number - 1]) if number <= len(each) else None for each in (printed, computed)]
            rows.append((table.name, number, None, *here, "a whole row"))
            continue
        for column, was, now in zip(header, printed[number - 1], computed[number - 1], strict=True):
            if was not in (now, _LOST):
                rows.append((table.name, number, column, was, now, _REMARKS.get((table.name, number, column), "")))
    return rows
