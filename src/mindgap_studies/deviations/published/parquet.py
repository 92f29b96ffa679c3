"""Reads rows of a Parquet file, and refuses a file that does not hold what a study needs."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow has no types)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from mindgap.graph import MindgapError


class BadData(MindgapError):
    """Data that a study cannot use. The message names file, column and row; the first row of a file is 0."""

    def __init__(self, path: Path, what: str, *, column: str | None = None, row: int | None = None) -> None:
        place = [str(path)]
        if column is not None:
            place.append(f"column {column}")
        if row is not None:
            place.append(f"row {row}")
        super().__init__(f"{', '.join(place)}: {what}")


def read_rows(path: Path, rows_of: TypeAdapter[Any], columns: Sequence[str]) -> Any:
    """Reads some columns of a file. Returns what `rows_of` makes of a list of one dict per row, at least one, each with
    its number as `at`. Raises `BadData`."""
    if not path.is_file():
        raise BadData(path, "there is no such file; name a directory with the published data")
    try:
        table = pq.read_table(path, columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        raise BadData(path, f"it cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    if not table.num_rows:
        raise BadData(path, "it has no rows")
    try:
        return rows_of.validate_python([{**row, "at": at} for at, row in enumerate(table.to_pylist())])
    except ValidationError as error:
        first = error.errors()[0]
        row, column, *_ = first["loc"]
        raise BadData(path, f"{first['input']!r:.60}: {first['msg']}", column=str(column), row=int(row)) from None
