"""Writes and checks segments: immutable Parquet files of one table.

A segment's name holds its time, its writer and the XXH3-128 of its bytes. So a copy can be checked, and equal
names mean equal content.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from mindgap.results.store.errors import RowError, StoreError
from mindgap.results.store.location import LocalLocation, StoreLocation, remote_errors
from mindgap.results.store.tables import TABLES, VERSION, VERSION_KEY, TableSchema

SUFFIX: Final = ".parquet"
_NAME: Final = re.compile(r"(?P<stamp>[0-9a-f]{16})-[0-9a-f]+-(?P<hash>[0-9a-f]{32})\.parquet")
_AGAIN: Final = "copy it again, or move it away and run again what it held: its rows are lost, no others"


def folder_of(table: TableSchema) -> str:
    return f"tables/{table.name}"


def is_segment(name: str) -> bool:
    """Tells whether a name is that of a segment among the tables."""
    folder, _, file = name.rpartition("/")
    return folder in map(folder_of, TABLES.values()) and _NAME.fullmatch(file) is not None


def to_arrow(table: TableSchema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Converts rows to an Arrow table. Raises `RowError` naming the value that a column cannot hold."""
    columns: list[pa.Array[Any]] = []
    for field in table.schema:
        values = [_plain(row.get(field.name)) for row in rows]
        try:
            column: pa.Array[Any] = pa.array(values, field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError) as error:
            raise RowError(f"table {table.name}, column {field.name} holds {field.type}: {error}") from None
        if not field.nullable and column.null_count:
            raise RowError(f"table {table.name}: {field.name} is part of the key and cannot be null")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=table.schema)


def packed(rows: pa.Table) -> bytes:
    """Returns the bytes of a segment."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd", compression_level=3, write_page_checksum=True)
    return sink.getvalue()


def packed_segment(table: TableSchema, rows: pa.Table) -> tuple[str, bytes]:
    """Returns the file name and the bytes of a segment of stamped rows."""
    data, last = packed(rows), rows.num_rows - 1
    written: int = rows["_written"][last].as_py()
    return segment_name(table, data, written, rows["_writer"][last].as_py()), data


def segment_name(table: TableSchema, data: bytes, written: int, writer: str) -> str:
    """Returns a segment's file name. `written`: microseconds since 1970, of the youngest row."""
    return f"{folder_of(table)}/{written:016x}-{writer}-{xxhash.xxh3_128_hexdigest(data)}{SUFFIX}"


def last_stamp(location: StoreLocation, tables: Iterable[TableSchema]) -> int:
    """Returns the youngest stamp in the names of the tables' segments, in microseconds since 1970; 0 without any."""
    names = (name.rpartition("/")[2] for table in tables for name in location.names(folder_of(table)))
    return max((int(match["stamp"], 16) for name in names if (match := _NAME.fullmatch(name))), default=0)


def check_segment(location: StoreLocation, name: str, table: TableSchema) -> None:
    """Checks a segment before it is queried: the footer, which a truncated file lacks, and the digest in its name.

    Elsewhere than in a local directory, only the footer. Raises `StoreError` for a damaged file, one of another
    version, or one of another table; `FileNotFoundError` for one that is gone.
    """
    if isinstance(location, LocalLocation):
        sound_bytes(location, name, table)
        return
    try:
        with location.open(name) as file:
            _check_footer(location, name, file, table)
    except FileNotFoundError:
        raise
    except remote_errors() as error:
        raise _damaged(location, name, error) from None


def sound_bytes(location: StoreLocation, name: str, table: TableSchema) -> bytes:
    """Returns the bytes of a segment after all checks of `check_segment`, with its errors."""
    data = location.read(name)
    if data is None:
        raise FileNotFoundError(location.url(name))
    _check_footer(location, name, io.BytesIO(data), table)
    return checked(location, name, data)


def read_segment(location: StoreLocation, name: str, table: TableSchema) -> pa.Table:
    """Returns the rows of a segment after all checks. Raises `StoreError` for a damaged one, `FileNotFoundError` if it
    is gone."""
    data = sound_bytes(location, name, table)
    try:
        rows = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read(use_threads=False)
        rows.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(location, name, error) from None
    return rows


def _check_footer(location: StoreLocation, name: str, file: BinaryIO, table: TableSchema) -> None:
    where = location.url(name)
    try:
        metadata = pq.read_metadata(file)
        schema = metadata.schema.to_arrow_schema()
    except FileNotFoundError:
        raise
    except (pa.ArrowException, *remote_errors(), UnicodeDecodeError) as error:
        raise _damaged(location, name, error) from None
    about = metadata.metadata or {}
    version = about.get(VERSION_KEY.encode(), b"none").decode(errors="replace")
    if version != str(VERSION):
        raise StoreError(f"segment {where} is of store version {version}, this mindgap reads {VERSION}: move it away")
    if about.get(b"mindgap.table") != table.name.encode() or not schema.equals(table.schema):
        raise StoreError(f"segment {where} is not of the table {table.name}: move it to the folder that it came from")


def _damaged(location: StoreLocation, name: str, error: Exception) -> StoreError:
    why = str(error).strip().splitlines()[0]
    return StoreError(f"segment {location.url(name)} is damaged or cut short ({why}): {_AGAIN}")


def checked_bytes(location: StoreLocation, name: str) -> bytes:
    """Returns the segment's bytes. Raises `StoreError` if they do not match the digest in its name."""
    data = location.read(name)
    if data is None:
        raise StoreError(f"segment {location.url(name)} is gone: list the store again")
    return checked(location, name, data)


def checked(location: StoreLocation, name: str, data: bytes) -> bytes:
    """Returns the bytes of a segment that was read. Raises `StoreError` if its name has another digest."""
    named = _NAME.fullmatch(name.rpartition("/")[2])
    if named is None:
        raise StoreError(f"{location.url(name)} is no segment, going by its name: move it away")
    if xxhash.xxh3_128_hexdigest(data) != named["hash"]:
        raise StoreError(f"segment {location.url(name)} does not hold what its name promises: {_AGAIN}")
    return data


def _plain(value: Any) -> Any:
    """Converts mappings to dicts: Arrow takes no other mapping."""
    return dict(value) if isinstance(value, Mapping) else value
