"""Opens, appends to, queries, merges and compacts a store."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mindgap.graph import Graph, GraphError, TensorStore, decode, digest, digest_of_bytes, encode, stored_keys
from mindgap.results.store.commits import Commits, graph_file
from mindgap.results.store.errors import StoreError
from mindgap.results.store.location import LocalLocation, location_at
from mindgap.results.store.segment import checked, checked_bytes, folder_of, last_stamp, packed_segment
from mindgap.results.store.tables import TABLES, VERSION, TableSchema
from mindgap.results.store.views import Views
from mindgap.results.store.writer import Row, Writer, table_named

#: Bytes of small segments that a compaction puts together at a time, and files that it reads or removes at a time.
_GROUP: Final = 64 << 20
_REQUESTS: Final = 16
#: In every store, and in nothing else: what it is, and of which version.
MARKER: Final = "mindgap-store.json"


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """Counts of what a merge copied, without what was here already."""

    segments: int
    graphs: int
    tensors: int


class Store:
    """A directory (or fsspec URL) of immutable segments: `tables/TABLE/*.parquet`, `graphs/`, `tensors/`.

    Any number of processes may read and write one at once. Thread-safe.
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        """Opens a store, and removes temporary files of killed writers. `create`: makes a store where there is none.

        Raises `StoreError` for a store of another version, and for a directory that holds something else.
        """
        self._location, filesystem = location_at(path)
        self._path = path
        if not self._opened():
            if not create:
                makers = "`mindgap diff --store`, `corpus build` and `campaign run` make one"
                raise StoreError(f"{self.url} is no store: there is no {MARKER} in it ({makers})")
            self._make()
        self._location.clean()
        self._views = Views(self._location, filesystem)

    @property
    def url(self) -> str:
        """The store's directory or URL."""
        return self._location.url()

    @property
    def tensors(self) -> TensorStore:
        """The tensors next to the tables. Raises `StoreError` where the store is not a directory of this machine."""
        if not isinstance(self._location, LocalLocation):
            raise StoreError(f"tensors are kept in local stores only, not in {self.url}")
        return TensorStore(self._location.root / "tensors")

    def writer(self, *, rows: int = 4096, nbytes: int = 8 << 20, age_s: float = 5.0, after: int = 0) -> Writer:
        """Returns a buffered writer, which the caller closes; the limits are those of `Writer`."""
        return Writer(self, rows=rows, nbytes=nbytes, age_s=age_s, after=after)

    def commits(self, run: str) -> Commits:
        """Returns the commits of a run."""
        return Commits(self._location, run)

    def last_stamp(self) -> int:
        """Returns the youngest stamp of the store's rows, in microseconds since 1970; 0 if it has none.

        A writer that begins `after` it writes rows that count, even if the clock of this machine is behind.
        """
        return last_stamp(self._location, TABLES.values())

    def append(self, table: str, rows: Row | Iterable[Row]) -> None:
        """Publishes rows at once, as one segment. They are the last ones, even if the clock of this machine is behind.

        Lists the table. For many small appends, use a `writer`. Raises `StoreError`.
        """
        with self.writer(after=last_stamp(self._location, [table_named(table)])) as writer:
            writer.append(table, rows)

    def publish(self, table: TableSchema, rows: pa.Table) -> str:
        """Publishes stamped rows as a segment. Returns its name. Raises `StoreError` if it cannot be written."""
        name, data = packed_segment(table, rows)
        self._location.publish(name, data)
        return name

    def check_writable(self) -> None:
        """Writes a file, and refuses to write it again. Raises `StoreError` for a place where that does not work.

        Commits need both. Some servers that speak S3 write twice.
        """
        name = f"commits/.check-{secrets.token_hex(8)}"
        first = self._location.create(name, b"")
        try:
            if not first or self._location.create(name, b""):
                raise StoreError(f"{self.url} replaces a file that is to be created only if it is new")
        finally:
            self._location.remove(name)

    def query(self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> pa.Table:
        """Runs SQL in DuckDB over views named like the tables, in which each key occurs once.

        `params` fill `?`, `$1` (a sequence) or `$name` (a mapping). Raises `StoreError` for SQL that fails, and
        for a damaged segment, naming it.
        """
        return self._views.query(sql, params)

    def rows(self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Runs SQL and returns Python values, a dict per row; maps are dicts."""
        return self.query(sql, params).to_pylist(maps_as_pydicts="strict")

    def rows_of(self, table: str, run: str | None = None) -> list[dict[str, Any]]:
        """Returns the rows of a table, or those of a run in it, as `rows` does. Of a small table this takes no SQL.

        Raises `StoreError` also for values that Python cannot hold.
        """
        small = self._views.small(table_named(table), run)
        if small is None:
            small = self.query(f"SELECT * FROM {table}{_of(run)}", _values(run))
        try:
            return small.to_pylist(maps_as_pydicts="strict")
        except (ValueError, OverflowError, KeyError) as error:
            why = str(error).splitlines()[0][:200]
            raise StoreError(f"{self.url}: {table} holds what mindgap does not write ({why}): copy it again") from None

    def count_of(self, table: str, run: str | None = None) -> int:
        """Returns the number of rows of a table, or of a run in it. Of a small table this takes no SQL."""
        small = self._views.small(table_named(table), run)
        if small is not None:
            return small.num_rows
        return self.rows(f"SELECT count(*) AS n FROM {table}{_of(run)}", _values(run))[0]["n"]

    def put_graph(self, graph: Graph, *, tensors: TensorStore | None = None) -> str:
        """Keeps a graph's bytes under its digest, and returns that. `tensors`: the store of its tensors."""
        key = digest(graph)
        if not self._location.exists(graph_file(key)):
            self._location.publish(graph_file(key), encode(graph))
        if tensors is not None:
            self.tensors.copy(stored_keys(graph), tensors)
        return key

    def put_graph_bytes(self, key: str, data: bytes) -> None:
        """Keeps the bytes of an encoded graph under its digest; reading checks that they match."""
        if not self._location.exists(graph_file(key)):
            self._location.publish(graph_file(key), data)

    def remove_graph(self, key: str) -> None:
        """Removes the bytes of a graph, if there are any. Rows that name it stay."""
        self._location.remove(graph_file(key))

    def get_graph(self, key: str) -> Graph:
        """Returns the graph with this digest. Raises `StoreError` if it is missing or damaged."""
        data = self._location.read(graph_file(key))
        if data is None:
            raise StoreError(f"{self.url} does not keep the graph {key}")
        where = self._location.url(graph_file(key))
        try:
            other = digest_of_bytes(data) != key
            graph = decode(data)
        except GraphError as error:
            raise StoreError(f"graph file {where}: {error}; copy it again, or remove it and run again") from None
        if other:
            raise StoreError(f"graph file {where} holds another graph: copy it again, or remove it and run again")
        return graph

    def merge(self, other: Store | str | Path) -> MergeCounts:
        """Copies from another store what is not here yet. Idempotent.

        Every segment is checked before it is published here. Raises `StoreError` naming a damaged one; what was
        copied before it stays, and merging again goes on from there.
        """
        source = other if isinstance(other, Store) else Store(other, create=False)
        segments = sum(self._copy(source, folder_of(table), check=True) for table in TABLES.values())
        graphs = sum(self._copy(source, directory) for directory in source._location.directories("graphs"))
        return MergeCounts(segments, graphs, self._copy(source, "tensors"))

    def check(self) -> list[str]:
        """Checks every byte of the store's segments. Returns a sentence for each damaged one."""
        wrong: list[str] = []
        for table in TABLES.values():
            for name in self._location.names(folder_of(table)):
                try:
                    checked_bytes(self._location, name)
                except StoreError as error:
                    wrong.append(str(error))
        return wrong

    def compact(self, *, below: int = 4 << 20) -> int:
        """Merges a table's segments smaller than `below` bytes. Returns how many files that removed.

        The new segment is published before the old ones go, and rows keep their stamps, so that a kill in between,
        or an old segment that is copied in again, leaves duplicates that queries do not see. So do two processes that
        compact at once.
        """
        removed = 0
        for table in TABLES.values():
            sizes = self._location.sizes(folder_of(table))
            for names in _groups({name: size for name, size in sizes.items() if size < below}):
                removed += self._combine(table, names)
        return removed

    def _combine(self, table: TableSchema, names: Sequence[str]) -> int:
        """Replaces segments by one. Returns how many files that removed."""
        tables = self._read_all(names)
        if len(tables) < 2:
            return 0
        files = [pq.ParquetFile(pa.BufferReader(data)) for _, data in tables]
        together = pa.concat_tables([file.read(use_threads=False) for file in files])
        stamp = [(column, "ascending") for column in ("_written", "_writer", "_seq")]
        new = self.publish(
            table, together.sort_by(stamp).cast(table.schema).replace_schema_metadata(table.schema.metadata)
        )
        old = [name for name, _ in tables if name != new]
        with ThreadPoolExecutor(_REQUESTS, "mindgap-compact") as threads:
            list(threads.map(self._location.remove, old))
        return len(old)

    def _read_all(self, names: Sequence[str]) -> list[tuple[str, bytes]]:
        """Reads and checks segments. Leaves out those that another process has compacted away meanwhile."""
        with ThreadPoolExecutor(_REQUESTS, "mindgap-compact") as threads:
            read = zip(names, threads.map(self._location.read, names), strict=True)
            return [(name, checked(self._location, name, data)) for name, data in read if data is not None]

    def _opened(self) -> bool:
        """Returns whether there is a store. Raises `StoreError` for one that cannot be read."""
        data = self._location.read(MARKER)
        if data is None:
            return False
        where = self._location.url(MARKER)
        try:
            content = json.loads(data)
            version = content["version"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(f"{where} is damaged: write {_marker().decode()} into it if this is a store") from None
        if version != VERSION:
            known = f"is a store of version {version}, this mindgap reads {VERSION}"
            raise StoreError(f"{self.url} {known}: use another directory, or the mindgap that wrote it")
        return True

    def _make(self) -> None:
        occupied = self._location.names("") + self._location.directories("")
        # Another process may have made the store since we looked.
        if occupied and not self._opened():
            raise StoreError(f"{self.url} is no store and not empty ({occupied[0]}, …): name a new or empty directory")
        self._location.publish(MARKER, _marker())

    def _copy(self, source: Store, directory: str, *, check: bool = False) -> int:
        here = set(self._location.names(directory))
        new = [name for name in source._location.names(directory) if name not in here]
        for name in new:
            data = checked_bytes(source._location, name) if check else source._location.read(name)
            if data is not None:
                self._location.publish(name, data)
        return len(new)


def new_run(kind: str) -> str:
    """Returns a unique name for a run, sorted by time: `diff-20261121T041500-1a2b3c4d`."""
    return f"{kind}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def _of(run: str | None) -> str:
    return "" if run is None else " WHERE run = ?"


def _values(run: str | None) -> list[str]:
    return [] if run is None else [run]


def _groups(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yields the names in order, so many at a time that they take `_GROUP` bytes."""
    group: list[str] = []
    total = 0
    for name, size in sizes.items():
        group.append(name)
        total += size
        if total >= _GROUP:
            yield group
            group, total = [], 0
    if group:
        yield group


def _marker() -> bytes:
    return json.dumps({"format": "mindgap-store", "version": VERSION}).encode()
