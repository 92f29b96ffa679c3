"""Opens, appends to, queries, merges and compacts a store."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mindgap.graph import Graph, GraphError, TensorStore, decode, digest, digest_of_bytes, encode
from mindgap.store.errors import StoreError
from mindgap.store.location import LocalLocation, location_at
from mindgap.store.records import stored_keys
from mindgap.store.segment import checked_bytes, folder_of, packed, segment_name
from mindgap.store.tables import TABLES, VERSION, TableSchema
from mindgap.store.views import Views
from mindgap.store.writer import Row, Writer

#: In every store, and in nothing else: what it is, and of which version.
MARKER: Final = "mindgap-store.json"


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge copied; what was here already is not counted."""

    segments: int
    graphs: int
    tensors: int


class Store:
    """A directory (or fsspec URL) of immutable segments: `tables/TABLE/*.parquet`, `graphs/`, `tensors/`.

    Any number of processes may read and write one at once. Thread-safe.
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        """Opens a store, and removes what killed writers left in it. `create`: also where nothing is yet.

        Raises `StoreError` for a store of another version, and for a place that holds something else.
        """
        self._place, filesystem = location_at(path)
        self._path = path
        if not self._opened():
            if not create:
                raise StoreError(f"{self.url} is no store: there is no {MARKER} in it (--store DIR makes one)")
            self._make()
        self._place.clean()
        self._views = Views(self._place, filesystem)

    @property
    def url(self) -> str:
        """Where it is."""
        return self._place.url()

    @property
    def tensors(self) -> TensorStore:
        """The tensors beside the tables. Raises `StoreError` where the store is not a directory of this machine."""
        if not isinstance(self._place, LocalLocation):
            raise StoreError(f"tensors are kept in local stores only, not in {self.url}")
        return TensorStore(self._place.root / "tensors")

    def writer(self, *, rows: int = 4096, nbytes: int = 8 << 20, age_s: float = 5.0) -> Writer:
        """A buffered writer, to be closed; the bounds are `Writer`'s."""
        return Writer(self, rows=rows, nbytes=nbytes, age_s=age_s)

    def append(self, table: str, rows: Row | Iterable[Row]) -> None:
        """Publishes rows at once, as one segment. For many small appends, use a `writer`. Raises `StoreError`."""
        with self.writer() as writer:
            writer.append(table, rows)

    def publish(self, table: TableSchema, rows: pa.Table) -> str:
        """Publishes stamped rows as a segment and gives its name. Raises `StoreError` where it cannot be written."""
        data = packed(rows)
        last = rows.num_rows - 1
        written: int = rows["_written"][last].as_py()
        name = segment_name(table, data, written, rows["_writer"][last].as_py())
        self._place.publish(name, data)
        return name

    def query(self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> pa.Table:
        """DuckDB's answer over views named like the tables, in which each key occurs once.

        `params` fill `?`, `$1` (a sequence) or `$name` (a mapping). Raises `StoreError` for SQL that fails, and
        for a damaged segment, naming it.
        """
        return self._views.query(sql, params)

    def rows(self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The same as Python values, a dict per row; maps are dicts."""
        return self.query(sql, params).to_pylist(maps_as_pydicts="strict")

    def put_graph(self, graph: Graph, *, tensors: TensorStore | None = None) -> str:
        """Keeps a graph's bytes under its digest, which it returns. `tensors`: where its stored tensors come from."""
        key = digest(graph)
        if not self._place.exists(_graph_file(key)):
            self._place.publish(_graph_file(key), encode(graph))
        if tensors is not None:
            self.tensors.copy(stored_keys(graph), tensors)
        return key

    def put_graph_bytes(self, key: str, data: bytes) -> None:
        """Keeps what `encode` made of the graph with this digest elsewhere; reading checks that it is that one."""
        if not self._place.exists(_graph_file(key)):
            self._place.publish(_graph_file(key), data)

    def remove_graph(self, key: str) -> None:
        """Removes the bytes of a graph, if they are kept. Rows that name it stay."""
        self._place.remove(_graph_file(key))

    def get_graph(self, key: str) -> Graph:
        """The graph with this digest. Raises `StoreError` where it is not kept, or damaged."""
        data = self._place.read(_graph_file(key))
        if data is None:
            raise StoreError(f"{self.url} does not keep the graph {key}")
        where = self._place.url(_graph_file(key))
        try:
            other = digest_of_bytes(data) != key
            graph = decode(data)
        except GraphError as error:
            raise StoreError(f"graph file {where}: {error}; copy it again, or remove it and run again") from None
        if other:
            raise StoreError(f"graph file {where} holds another graph: copy it again, or remove it and run again")
        return graph

    def merge(self, other: Store | str | Path) -> Merged:
        """Copies from another store what is not here yet. Doing it twice, or both ways, changes nothing more.

        Every segment is checked before it is published here. Raises `StoreError` naming a damaged one; what was
        copied before it stays, and merging again goes on from there.
        """
        source = other if isinstance(other, Store) else Store(other, create=False)
        segments = sum(self._copy(source, folder_of(table), check=True) for table in TABLES.values())
        graphs = sum(self._copy(source, folder) for folder in source._place.folders("graphs"))
        return Merged(segments, graphs, self._copy(source, "tensors"))

    def check(self) -> list[str]:
        """What is wrong with the store's segments, a sentence each, every byte looked at. Empty where all is well."""
        wrong: list[str] = []
        for table in TABLES.values():
            for name in self._place.names(folder_of(table)):
                try:
                    checked_bytes(self._place, name)
                except StoreError as error:
                    wrong.append(str(error))
        return wrong

    def compact(self, *, below: int = 4 << 20) -> int:
        """Puts a table's segments smaller than `below` bytes together, and says how many files that removed.

        The new segment is published before the old ones go, and rows keep their stamps, so that a kill in between,
        or an old segment that is copied in again, leaves duplicates that queries do not see.
        """
        removed = 0
        for table in TABLES.values():
            small = [
                (name, data)
                for name in self._place.names(folder_of(table))
                if len(data := checked_bytes(self._place, name)) < below
            ]
            if len(small) < 2:
                continue
            together = pa.concat_tables([pq.read_table(pa.BufferReader(data)) for _, data in small])
            stamp = [(column, "ascending") for column in ("_written", "_writer", "_seq")]
            new = self.publish(
                table, together.sort_by(stamp).cast(table.schema).replace_schema_metadata(table.schema.metadata)
            )
            for name, _ in small:
                if name != new:
                    self._place.remove(name)
                    removed += 1
        return removed

    def _opened(self) -> bool:
        """Whether a store is here. Raises `StoreError` for one that cannot be read."""
        data = self._place.read(MARKER)
        if data is None:
            return False
        where = self._place.url(MARKER)
        try:
            found = json.loads(data)
            version = found["version"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(f"{where} is damaged: write {_marker().decode()} into it if this is a store") from None
        if version != VERSION:
            known = f"is a store of version {version}, this mindgap reads {VERSION}"
            raise StoreError(f"{self.url} {known}: use another directory, or the mindgap that wrote it")
        return True

    def _make(self) -> None:
        occupied = self._place.names("") + self._place.folders("")
        # Another process may have made the store since we looked.
        if occupied and not self._opened():
            raise StoreError(f"{self.url} is no store and not empty ({occupied[0]}, …): name a new or empty directory")
        self._place.publish(MARKER, _marker())

    def _copy(self, source: Store, folder: str, *, check: bool = False) -> int:
        here = set(self._place.names(folder))
        new = [name for name in source._place.names(folder) if name not in here]
        for name in new:
            data = checked_bytes(source._place, name) if check else source._place.read(name)
            if data is not None:
                self._place.publish(name, data)
        return len(new)


def new_run(kind: str) -> str:
    """A name for a run that no other has, sorted by time: `diff-20261121T041500-1a2b3c4d`."""
    return f"{kind}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def _marker() -> bytes:
    return json.dumps({"format": "mindgap-store", "version": VERSION}).encode()


def _graph_file(key: str) -> str:
    return f"graphs/{key[:2]}/{key}.graph"
