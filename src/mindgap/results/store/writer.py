"""Buffers rows and publishes them as segments."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from mindgap.results.store.errors import RowError, StoreError
from mindgap.results.store.segment import to_arrow
from mindgap.results.store.tables import TABLES, TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, Any]


class Publisher(Protocol):
    """Takes segments: a store, or what is collected for one."""

    @property
    def url(self) -> str: ...

    def publish(self, table: TableSchema, rows: pa.Table) -> str: ...


class Writer:
    """Buffers rows of all tables, and publishes them when there are `rows` of them, when they hold about `nbytes`,
    when the oldest has waited for `age_s` seconds, and on `close`.

    What was published stays, if the process dies; what is buffered goes with it. Tables are published
    in the order of `TABLES`, all together, so that no reader sees a verdict before its outcome. Thread-safe. Where
    publishing fails (a full disk) the rows stay buffered, and the next `append`, `flush` or `close` tries again
    and raises `StoreError` if that fails too; `append` has then not taken its row.
    """

    def __init__(
        self, store: Publisher, *, rows: int = 4096, nbytes: int = 8 << 20, age_s: float = 5.0, after: int = 0
    ) -> None:
        """`after`: a stamp; all rows get later ones."""
        self._store = store
        self._limits = (rows, nbytes)
        self._age = age_s
        self._name = secrets.token_hex(6)
        self._seq = 0
        self._last = after + 1
        self._buffers: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self._count = self._weight = 0
        self._oldest = 0.0
        self._stuck = False
        self._wrong: RowError | None = None
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._clock = threading.Thread(target=self._watch, name="mindgap-store", daemon=True)
        self._clock.start()

    def append(self, table: str, rows: Row | Iterable[Row]) -> None:
        """Buffers one row or several. Raises `StoreError` for an unknown table or column, or an incomplete key."""
        given: list[Row] = [cast("Row", rows)] if isinstance(rows, Mapping) else list(rows)
        kind = table_named(table)
        for row in given:
            check_row(kind, row)
        with self._lock:
            if self._closed.is_set():
                raise StoreError(f"the writer of {self._store.url} is closed")
            if self._stuck:
                self.flush()
            for row in given:
                self._take(kind, row)
            if self._count >= self._limits[0] or self._weight >= self._limits[1]:
                self.flush()

    def flush(self) -> None:
        """Publishes the buffered rows. Drops a row that does not fit its table; raises its error last."""
        with self._lock:
            self._stuck = True
            for name, buffer in self._buffers.items():
                if buffer:
                    self._publish(TABLES[name], buffer)
                    buffer.clear()
            self._stuck = False
            self._count = self._weight = 0
            wrong, self._wrong = self._wrong, None
        if wrong is not None:
            raise wrong

    def close(self) -> None:
        """Flushes and closes. If the disk is full, it stays open, to be closed again."""
        with self._lock:
            if self._closed.is_set():
                return
            try:
                self.flush()
            finally:
                if not self._stuck:
                    self._closed.set()
        self._clock.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, kind: TableSchema, row: Row) -> None:
        if not self._count:
            self._oldest = time.monotonic()
        # A clock that is set back must not make a later row look earlier.
        self._last = max(self._last, time.time_ns() // 1000)
        self._buffers[kind.name].append({**row, "_written": self._last, "_writer": self._name, "_seq": self._seq})
        self._seq += 1
        self._count += 1
        self._weight += _weight(row)

    def _publish(self, table: TableSchema, buffer: Sequence[Row]) -> None:
        try:
            self._store.publish(table, to_arrow(table, buffer))
        except RowError:
            good: list[Row] = []
            for row in buffer:
                try:
                    to_arrow(table, [row])
                except RowError as error:
                    self._wrong = error
                else:
                    good.append(row)
            if good:
                self._store.publish(table, to_arrow(table, good))

    def _watch(self) -> None:
        while not self._closed.wait(self._age / 4):
            with self._lock:
                if self._count and not self._stuck and time.monotonic() - self._oldest >= self._age:
                    try:
                        self.flush()
                    except RowError as error:
                        self._wrong = error
                    except StoreError:
                        # The next `append`, `flush` or `close` meets the same, and has a caller to tell.
                        self._stuck = True


def table_named(name: str) -> TableSchema:
    """Returns a table by name. Raises `StoreError` for an unknown one."""
    try:
        return TABLES[name]
    except KeyError:
        raise StoreError(f"a store has no table {name!r}; it has {', '.join(TABLES)}") from None


def check_row(table: TableSchema, row: Row) -> None:
    """Raises `RowError` for a column that the table lacks, and for an incomplete key."""
    unknown = row.keys() - table.columns
    if unknown:
        raise RowError(f"table {table.name} has no column {', '.join(sorted(unknown))}")
    for column in table.key:
        if row.get(column) is None:
            raise RowError(f"a row of {table.name} needs {column}: its key is {', '.join(table.key)}")


def _weight(value: Any) -> int:
    """Estimates the bytes of a value in memory, to limit a buffer of long messages."""
    if isinstance(value, str):
        return 56 + len(value)
    if isinstance(value, Mapping):
        return 64 + sum(_weight(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return 64 + sum(_weight(item) for item in value)
    return 32
