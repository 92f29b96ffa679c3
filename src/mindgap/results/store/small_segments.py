"""Puts many small segments together in a few local files, for the queries of one process.

A query opens every file that it reads, so that its cost grows with their number, and on an object store each is several
requests. A store that a cluster writes has a small segment for each block and table until it is compacted.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# (DuckDB's types are partial)

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mindgap.results.store.errors import StoreError
from mindgap.results.store.location import StoreLocation
from mindgap.results.store.segment import sound_bytes
from mindgap.results.store.tables import TableSchema
from mindgap.run.system import remove_leftovers

if TYPE_CHECKING:
    import duckdb

#: Segments below this are small; fewer than so many of them are read where they are.
SMALL: Final = 1 << 20
MANY: Final = 256
#: Segments that are put into one file, and how many are read at a time: an object store takes long to answer.
_TOGETHER: Final = 1024
_READERS: Final = 16
_PREFIX: Final = "mindgap-segments-"


class SmallSegments:
    """The small segments of each table that have been put together. The files go with this object."""

    def __init__(self, location: StoreLocation) -> None:
        self._location = location
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._copied: dict[str, dict[str, frozenset[str]]] = {}

    def sources(
        self, connection: duckdb.DuckDBPyConnection, table: TableSchema, sizes: Mapping[str, int]
    ) -> tuple[list[str], list[str]]:
        """Returns the files that hold put-together segments, and the names of the segments that are in none.

        `sizes`: bytes by name of all segments of the table. Raises `StoreError` for a damaged one among those that are
        put together now, and `FileNotFoundError` if one is gone.
        """
        copies = self._copied.setdefault(table.name, {})
        for file in [file for file, names in copies.items() if not names <= sizes.keys()]:
            # Some of it was compacted, or moved away because it is damaged.
            del copies[file]
            Path(file).unlink()
        copied = {name for names in copies.values() for name in names}
        small = [name for name, size in sizes.items() if size < SMALL and name not in copied]
        if len(small) >= MANY:
            for first in range(0, len(small), _TOGETHER):
                names = small[first : first + _TOGETHER]
                copies[self._put_together(connection, table, names)] = frozenset(names)
            copied.update(small)
        return list(copies), [name for name in sizes if name not in copied]

    def _put_together(self, connection: duckdb.DuckDBPyConnection, table: TableSchema, names: Sequence[str]) -> str:
        if self._directory is None:
            remove_leftovers(Path(tempfile.gettempdir()), _PREFIX)
            self._directory = tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-")
        target = f"{self._directory.name}/{table.name}-{secrets.token_hex(6)}.parquet"
        with tempfile.TemporaryDirectory(dir=self._directory.name) as scratch:
            files = [Path(scratch, str(number)) for number in range(len(names))]
            for file, data in zip(files, self._read(table, names), strict=True):
                _write(file, data)
            listed = ", ".join(f"'{file}'" for file in files)
            columns = ", ".join(table.schema.names)
            rows = f"SELECT {columns} FROM read_parquet([{listed}])"
            connection.execute(f"COPY ({rows}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
        return target

    def _read(self, table: TableSchema, names: Sequence[str]) -> Iterator[bytes]:
        with ThreadPoolExecutor(_READERS, "mindgap-segments") as readers:
            yield from readers.map(partial(sound_bytes, self._location, table=table), names)


def _write(file: Path, data: bytes) -> None:
    try:
        file.write_bytes(data)
    except OSError as error:
        raise StoreError(
            f"small segments cannot be put together in {tempfile.gettempdir()}: {error.strerror}; make room there, or "
            "set TMPDIR"
        ) from None
