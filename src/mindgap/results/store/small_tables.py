"""Reads tables of few bytes into memory: checks their segments, and leaves out rows that others supersede.

DuckDB takes about 30 ms to start, and 5 ms or more for each view of files and each query of one. Whoever wants the rows
of a run in such a table gets them without it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from mindgap.results.store.location import StoreLocation
from mindgap.results.store.segment import read_segment
from mindgap.results.store.tables import STAMP, TableSchema

#: Bytes of all segments of a table below which it is read into memory.
LIMIT: Final = 256 << 10


class SmallTables:
    """The segments of small tables that have been read and checked."""

    def __init__(self, location: StoreLocation) -> None:
        self._location = location
        self._read: dict[str, dict[str, pa.Table]] = {}

    def rows(self, table: TableSchema, sizes: Mapping[str, int]) -> pa.Table | None:
        """Returns the rows of a table, each key once; None for a table that is not small.

        `sizes`: bytes by name of all segments of the table. Raises `StoreError` for a damaged one, and
        `FileNotFoundError` if one is gone.
        """
        if sizes and sum(sizes.values()) >= LIMIT:
            self._read.pop(table.name, None)
            return None
        before = self._read.get(table.name, {})
        read = {name: before[name] if name in before else read_segment(self._location, name, table) for name in sizes}
        self._read[table.name] = read
        return _last_of_each_key(table, pa.concat_tables([table.schema.empty_table(), *read.values()]))


def _last_of_each_key(table: TableSchema, rows: pa.Table) -> pa.Table:
    """Returns the rows without those that a later one with their key supersedes."""
    key = [*table.key]
    if rows.select(key).group_by(key, use_threads=False).aggregate([]).num_rows == rows.num_rows:
        return rows
    keys = list(zip(*(rows[column].to_pylist() for column in key), strict=True))
    stamped = rows.select([*STAMP]).append_column("position", pa.array(range(rows.num_rows)))
    order = stamped.sort_by([*((column, "descending") for column in STAMP), ("position", "ascending")])
    latest: dict[tuple[object, ...], int] = {}
    for position in order["position"].to_pylist():
        latest.setdefault(keys[position], position)
    return rows.take(sorted(latest.values()))
