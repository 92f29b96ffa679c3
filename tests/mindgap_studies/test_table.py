"""A table as text."""

from __future__ import annotations

import csv
import io

from mindgap_studies import StudyTable, column, records, to_csv

TABLE = StudyTable("t", "T", ("name", "share"), (('a,"b"\nc', None), ("d", 0.1)), "", "SELECT 1")


def test_csv_gives_every_cell_back() -> None:
    assert list(csv.reader(io.StringIO(to_csv(TABLE)))) == [["name", "share"], ['a,"b"\nc', ""], ["d", "0.1"]]
    assert "\r" not in to_csv(TABLE)


def test_rows_by_name() -> None:
    assert records(TABLE)[1] == {"name": "d", "share": 0.1} and column(TABLE, "share") == [None, 0.1]
