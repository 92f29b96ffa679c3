"""Reads columns of a Parquet file, and refuses a file that does not hold what a study needs."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow has no types)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

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


@dataclass(frozen=True, slots=True)
class ParquetColumn:
    """What a column has to hold. `kind`: text, integer, bytes, or a list of text or integers. `null`: allowed."""

    kind: str
    null: bool = False


def _kind_of(dtype: Any) -> str:
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return f"list of {_kind_of(dtype.value_type)}".replace("integer", "integers")
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return "text"
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return "bytes"
    return "integer" if pa.types.is_integer(dtype) else "other"


def read_columns(path: Path, columns: Mapping[str, ParquetColumn]) -> list[dict[str, Any]]:
    """Reads some columns of a file. Returns one dict per row, at least one. Raises `BadData`."""
    if not path.is_file():
        raise BadData(path, "there is no such file; name a directory with the published data")
    if not path.stat().st_size:
        raise BadData(path, "the file is empty")
    try:
        schema = pq.read_schema(path)
        _check_schema(path, schema, columns)
        table = pq.read_table(path, columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        raise BadData(path, f"it cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    if not table.num_rows:
        raise BadData(path, "it has no rows")
    rows: list[dict[str, Any]] = table.to_pylist()
    for name, column in columns.items():
        if not column.null and table.column(name).null_count:
            row = next(i for i, each in enumerate(rows) if each[name] is None)
            raise BadData(path, "it has no value, and needs one", column=name, row=row)
    return rows


def _check_schema(path: Path, schema: Any, columns: Mapping[str, ParquetColumn]) -> None:
    for name, column in columns.items():
        if name not in schema.names:
            raise BadData(path, f"the column is missing; the file has {', '.join(schema.names)}", column=name)
        dtype = schema.field(name).type
        # A column without any value may come without a type.
        if _kind_of(dtype) != column.kind and not (column.null and pa.types.is_null(dtype)):
            raise BadData(path, f"it holds {dtype}; needed is {column.kind}", column=name)
