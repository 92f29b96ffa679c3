"""Commits the rows of one piece of work to a store at once, and only once, whoever does that work again.

The rows are collected in memory, packed into one file, and that file is created under the name of the work, if nothing
has that name (`StoreLocation.create`). The first one counts: whoever comes later drops its rows and publishes those of
the file. Then the segments in it are published among the tables, and the file is emptied. So no key is written twice,
and no clock decides which row counts. A process that dies before the file is created leaves nothing; one that dies
after it leaves a file with content, which `settle` publishes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import xxhash

from mindgap.graph import Graph, digest, encode
from mindgap.results.store.errors import StoreError
from mindgap.results.store.location import StoreLocation
from mindgap.results.store.segment import is_segment, packed_segment
from mindgap.results.store.tables import TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

    from mindgap.results.store.store import Store

_SUFFIX: Final = ".rows"
_DIGEST_BYTES: Final = 16
_GRAPH: Final = re.compile(r"graphs/[^/]+/(?P<key>[0-9a-z]+)\.graph")


class PendingRows:
    """Collects what a writer publishes, in memory, until it is committed."""

    def __init__(self, store: Store) -> None:
        self.url = store.url
        self._files: dict[str, bytes] = {}

    def publish(self, table: TableSchema, rows: pa.Table) -> str:
        """Takes stamped rows as a segment. Returns its name."""
        name, data = packed_segment(table, rows)
        self._files[name] = data
        return name

    def put_graph(self, graph: Graph) -> str:
        """Takes a graph. Returns its digest."""
        key = digest(graph)
        self.put_graph_bytes(key, encode(graph))
        return key

    def put_graph_bytes(self, key: str, data: bytes) -> None:
        """Takes the bytes of an encoded graph, by its digest."""
        self._files[graph_file(key)] = data

    def to_bytes(self) -> bytes:
        """Packs all of it: the digest of the archive that follows, then graphs, then the segments in the order of the
        tables."""
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(self._files, key=lambda name: not name.startswith("graphs/")):
                # A fixed moment: equal rows give equal bytes.
                archive.writestr(zipfile.ZipInfo(name), self._files[name])
        return _digest(sink.getvalue()) + sink.getvalue()


class Commits:
    """The commits of a run, in the folder `commits/RUN` of a store. Any number of processes may use it at once."""

    def __init__(self, location: StoreLocation, run: str) -> None:
        self._location, self._folder = location, f"commits/{run}"

    def names(self) -> set[str]:
        """Returns the names of all work that is committed."""
        listed = self._location.names(self._folder)
        return {name.rpartition("/")[2].removesuffix(_SUFFIX) for name in listed if name.endswith(_SUFFIX)}

    def committed(self, name: str) -> bool:
        """Tells whether the work is committed."""
        return self._location.exists(self._file(name))

    def url(self, name: str) -> str:
        """Returns the file of a commit."""
        return self._location.url(self._file(name))

    def commit(self, name: str, rows: PendingRows) -> bool:
        """Commits the rows, unless the work is committed already, and publishes those that count.

        Returns whether it was these. Raises `StoreError` if they cannot be written.
        """
        mine = rows.to_bytes()
        if self._location.create(self._file(name), mine):
            self._publish(name, mine)
            return True
        self.settle([name])
        return False

    def settle(self, names: Collection[str]) -> int:
        """Publishes committed rows whose writer may have died before it did. Returns for how many of the names."""
        count = 0
        for name in names:
            data = self._location.read(self._file(name))
            if data:
                self._publish(name, data)
                count += 1
        return count

    def _publish(self, name: str, data: bytes) -> None:
        try:
            files = _unpacked(data)
        except (ValueError, zipfile.BadZipFile) as error:
            raise StoreError(
                f"{self.url(name)} is damaged ({error}): remove it, and its rows are computed again"
            ) from None
        for each, content in files:
            self._location.publish(each, content)
        self._location.publish(self._file(name), b"")

    def _file(self, name: str) -> str:
        return f"{self._folder}/{name}{_SUFFIX}"


def _unpacked(data: bytes) -> list[tuple[str, bytes]]:
    """Returns the files of a commit. Raises `ValueError` if its digest differs, or it holds anything but graphs and
    segments, and `BadZipFile` if another program wrote it: damage of an archive changes its digest."""
    archived = data[_DIGEST_BYTES:]
    if data[:_DIGEST_BYTES] != _digest(archived):
        raise ValueError("its content does not have the digest that it begins with")
    with zipfile.ZipFile(io.BytesIO(archived)) as archive:
        files = [(each, archive.read(each)) for each in archive.namelist()]
    for each, _ in files:
        graph = _GRAPH.fullmatch(each)
        if not is_segment(each) and (graph is None or graph_file(graph["key"]) != each):
            raise ValueError(f"{each!r} is neither a graph nor a segment")
    return files


def _digest(data: bytes) -> bytes:
    return xxhash.xxh3_128_digest(data)


def graph_file(key: str) -> str:
    """Returns the name of the file of a graph."""
    return f"graphs/{key[:2]}/{key}.graph"
