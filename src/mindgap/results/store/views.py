"""Answers SQL over the segments: keeps a DuckDB view per table up to date with the files.

In a view, each key occurs once: the last written row counts. This depends on the rows only, so the order and number
of copied files do not matter. The view of a small table is of rows in memory, that of a larger one reads its files.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# (pyarrow has no types)

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from mindgap.results.store.errors import StoreError
from mindgap.results.store.location import StoreLocation
from mindgap.results.store.segment import SUFFIX, check_segment, checked_bytes, folder_of
from mindgap.results.store.small_segments import SmallSegments
from mindgap.results.store.small_tables import SmallTables
from mindgap.results.store.tables import STAMP, TABLES, TableSchema

if TYPE_CHECKING:
    import duckdb

_Answer = TypeVar("_Answer")
_WORD: Final = re.compile(r"\w+")
#: How often a query is tried while segments that it reads are compacted away.
_ATTEMPTS: Final = 8
_RANK: Final = ", ".join(f"{column} DESC" for column in STAMP)


class Views:
    """A DuckDB connection, and for each table the files that its view was made of. Thread-safe."""

    def __init__(self, location: StoreLocation, filesystem: Any) -> None:
        self._location = location
        self._filesystem = filesystem
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._seen: dict[str, tuple[str, ...]] = {}
        #: The files that a view was to be made of last.
        self._listed: dict[str, tuple[str, ...]] = {}
        self._sound: set[str] = set()
        self._small_tables = SmallTables(location)
        self._small_segments = SmallSegments(location)
        self._lock = threading.Lock()

    def query(self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None) -> pa.Table:
        """Runs SQL. Raises `StoreError` for SQL that fails, and for a damaged segment."""
        # A name in a string or a comment costs an unneeded view, and nothing else.
        named = {word.lower() for word in _WORD.findall(sql)}
        wanted = [table for table in TABLES.values() if table.name in named]
        return self._with_files(wanted, lambda: self._answer(sql, params, wanted))

    def small(self, table: TableSchema, run: str | None) -> pa.Table | None:
        """Returns the rows of a small table, or those of a run in it; None for a table that is not small."""
        rows = self._with_files([table], lambda: self._small_tables.rows(table, self._sizes(table)))
        return rows if rows is None or run is None else rows.filter(pc.field("run") == run)

    def _with_files(self, tables: Sequence[TableSchema], answer: Callable[[], _Answer]) -> _Answer:
        """Returns an answer from tables. The query is repeated while segments that it reads are compacted away."""
        # Imported late: a command that asks nothing of a store need not wait for it.
        import duckdb

        with self._lock:
            for left in reversed(range(_ATTEMPTS)):
                try:
                    return answer()
                except (duckdb.Error, FileNotFoundError) as error:
                    if left and self._are_gone(tables):
                        # Compacted away between listing and reading: look again.
                        self._seen.clear()
                        continue
                    if isinstance(error, duckdb.Error):
                        raise self._explained(error, tables) from None
                    raise StoreError(f"segment {error.filename or error} is gone: ask again") from None
            raise AssertionError("the last attempt returns or raises")

    def _are_gone(self, tables: Sequence[TableSchema]) -> bool:
        """Tells whether segments that were listed last have been removed."""
        return any(
            not set(self._listed.get(table.name, ())).issubset(self._location.names(folder_of(table)))
            for table in tables
        )

    def _answer(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None, tables: Sequence[TableSchema]
    ) -> pa.Table:
        connection = self._connection = self._connection or self._connected()
        for table in tables:
            self._refresh(connection, table)
        # Typed as if never None, which it is where a statement asks nothing.
        relation = cast("duckdb.DuckDBPyRelation | None", connection.sql(sql, params=params))
        return pa.table({}) if relation is None else relation.to_arrow_table()

    def _connected(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        # Nothing is fetched from anywhere, and what does not fit in memory does not land in the current directory.
        spill = os.path.join(tempfile.gettempdir(), f"mindgap-duckdb-{os.getpid()}")
        settings: dict[str, Any] = {"autoinstall_known_extensions": False, "temp_directory": spill}
        connection = duckdb.connect(config=settings)
        connection.execute("SET TimeZone = 'UTC'")
        if self._filesystem is not None:
            connection.register_filesystem(self._filesystem)
        return connection

    def _sizes(self, table: TableSchema) -> dict[str, int]:
        """Lists the segments of a table, with their bytes."""
        sizes = self._location.sizes(folder_of(table))
        sizes = {name: size for name, size in sizes.items() if name.endswith(SUFFIX)}
        self._listed[table.name] = tuple(sizes)
        return sizes

    def _refresh(self, connection: duckdb.DuckDBPyConnection, table: TableSchema) -> None:
        sizes = self._sizes(table)
        if self._seen.get(table.name) == tuple(sizes):
            return
        if (rows := self._small_tables.rows(table, sizes)) is not None:
            connection.register("_read", rows)
            connection.execute(f"CREATE OR REPLACE TABLE _rows_{table.name} AS SELECT * FROM _read")
            connection.unregister("_read")
            connection.execute(_view(table, f"_rows_{table.name}"))
        else:
            together, others = self._small_segments.sources(connection, table, sizes)
            for name in others:
                if name not in self._sound:
                    check_segment(self._location, name, table)
                    self._sound.add(name)
            connection.execute(f"DROP TABLE IF EXISTS _rows_{table.name}")
            self._make_view(connection, table, [*together, *map(self._location.url, others)])
        self._seen[table.name] = tuple(sizes)

    def _make_view(self, connection: duckdb.DuckDBPyConnection, table: TableSchema, files: Sequence[str]) -> None:
        """A view without the rows that another with their key supersedes.

        Ranking every row would cost each query more than the query itself. Keys that occur twice are few: they are
        found once for a set of files, their losing rows noted by file and row, and the view leaves those out.
        """
        listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
        key = ", ".join(table.key)
        place = "filename, file_row_number"
        source = f"read_parquet([{listed}], filename = true, file_row_number = true)"
        connection.execute(
            f"CREATE OR REPLACE TABLE _superseded_{table.name} AS "
            f"SELECT {place} FROM {source} SEMI JOIN "
            f"(SELECT {key} FROM {source} GROUP BY {key} HAVING count(*) > 1) USING ({key}) "
            f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {_RANK}, {place}) > 1"
        )
        (count,) = connection.execute(f"SELECT count(*) FROM _superseded_{table.name}").fetchone() or (0,)
        source = source if count else f"read_parquet([{listed}])"
        left_out = f"ANTI JOIN _superseded_{table.name} USING ({place})" if count else ""
        connection.execute(_view(table, f"{source} {left_out}"))

    def _explained(self, error: duckdb.Error, tables: Sequence[TableSchema]) -> StoreError:
        """Returns the error to raise: it names the damaged segment, if there is one, else it has DuckDB's message."""
        import duckdb

        if not isinstance(error, duckdb.ProgrammingError):
            for table in tables:
                for name in self._listed.get(table.name, ()):
                    try:
                        checked_bytes(self._location, name)
                    except StoreError as damage:
                        return damage
        return StoreError(f"the query fails: {' '.join(str(error).split())}")


def _view(table: TableSchema, source: str) -> str:
    """Returns the statement that makes the view of a table, in place of one that was made before."""
    return f"CREATE OR REPLACE VIEW {table.name} AS SELECT {', '.join(table.schema.names)} FROM {source}"
