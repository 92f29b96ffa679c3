"""Reads a catalogue on disk: a store with the table `captures`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from mindgap.graph import Graph, MindgapError
from mindgap.results.store import Store

#: `forward`: its calls. `backward`: its kernels with gradients. `sgd`, `adamw`: a whole training step.
Pass = Literal["forward", "backward", "sgd", "adamw"]
PASSES: Final[tuple[Pass, ...]] = ("forward", "backward", "sgd", "adamw")


_COLUMNS: Final = (
    "source, pass, scheme, name, status, proven, reason, graph, holder, structure, nodes, parameters, operators, "
    "cpu_seconds, peak_bytes"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One pass of one program and its result. `holder`: digest of the graph that is kept for its structure."""

    source: str
    name: str
    scheme: str
    of: str
    status: str
    proven: bool
    reason: str
    graph: str
    holder: str
    structure: str
    nodes: int
    parameters: int
    operators: tuple[str, ...]
    cpu_seconds: float
    peak_bytes: int


class Catalogue:
    """A directory of graphs captured from models, one for each structure and pass."""

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        """Opens a catalogue. Raises `StoreError` if there is none, or if its store has another version."""
        self.path = Path(path)
        self.store = Store(path, create=create)

    @property
    def tensors(self) -> Path:
        """Returns the folder of tensors that are too large for a graph file."""
        return self.path / "tensors"

    def entries(self, where: str = "true", params: Sequence[Any] = ()) -> list[Entry]:
        """Returns the rows of `captures` that meet a SQL condition, ordered by scheme, source and pass."""
        sql = f"SELECT {_COLUMNS} FROM captures WHERE {where} ORDER BY scheme, source, pass"
        return [_entry(row) for row in self.store.rows(sql, list(params))]

    def entry(self, source: str, of: Pass = "forward") -> Entry:
        """Returns the entry of a source, or of the only program with that name. Raises `MindgapError`."""
        matching = self.entries("(source = ? OR name = ?) AND pass = ?", [source, source, of])
        exact = [entry for entry in matching if entry.source == source] or matching
        if len(exact) == 1:
            return exact[0]
        if exact:
            raise MindgapError(
                f"{source}: {len(exact)} programs have that name: {', '.join(e.source for e in exact[:5])}"
            )
        raise MindgapError(f"{source}: {self.path} has no {of} pass of it (mindgap corpus list {self.path} shows all)")

    def graph(self, entry: Entry) -> Graph:
        """Returns the graph of an entry, or the one of equal structure that was kept instead.

        Raises `MindgapError` if the entry was not captured, `StoreError` if the file is damaged.
        """
        if not entry.holder:
            raise MindgapError(f"{entry.source}: was not captured: {entry.reason}")
        return self.store.get_graph(entry.holder)

    def keep(self, key: str, data: bytes) -> None:
        """Writes the encoded bytes of a graph under its digest."""
        self.store.put_graph_bytes(key, data)

    def holders(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Maps (pass, structure) to the digest of the graph that is kept for it, and its source."""
        rows = self.store.rows("SELECT pass, structure, graph, source FROM captures WHERE status = 'captured'")
        return {(row["pass"], row["structure"]): (row["graph"], row["source"]) for row in rows}

    def holders_of(self, asked: Sequence[str]) -> set[str]:
        """Returns digests of the graphs that represent the programs of these sources."""
        sql = "SELECT DISTINCT holder FROM captures WHERE list_contains($asked, asked) AND holder IS NOT NULL"
        return {row["holder"] for row in self.store.rows(sql, {"asked": list(asked)})}

    def done(self, passes: Sequence[str], *, retry: bool = False, damaged: Sequence[str] = ()) -> set[str]:
        """Returns the sources that need no further work in these passes; with `retry`, without those that had a
        failure.

        Sources represented by a `damaged` graph (its digest) are never done.
        """
        sql = """SELECT source FROM asked WHERE list_has_all(passes, $passes) AND source NOT IN
                   (SELECT asked FROM captures WHERE list_contains($damaged, holder))"""
        if retry:
            sql += " AND source NOT IN (SELECT asked FROM captures WHERE status = 'failed')"
        params: dict[str, Any] = {"passes": list(passes), "damaged": list(damaged)}
        return {row["source"] for row in self.store.rows(sql, params)}


def _entry(row: dict[str, Any]) -> Entry:
    return Entry(
        row["source"], row["name"] or "", row["scheme"] or "", row["pass"], row["status"], bool(row["proven"]),
        row["reason"] or "", row["graph"] or "", row["holder"] or "", row["structure"] or "", row["nodes"] or 0,
        row["parameters"] or 0, tuple(row["operators"] or ()), row["cpu_seconds"] or 0.0, row["peak_bytes"] or 0,
    )  # fmt: skip
