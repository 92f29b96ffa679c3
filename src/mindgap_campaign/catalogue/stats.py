"""Counts the content of a catalogue by queries over its table of captures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.results.catalogue import Catalogue
from mindgap_campaign.catalogue.integrity import DamagedGraph, OnChecked, damaged_graphs

#: The three ways to call two graphs the same, from coarse to fine, and the column of each.
DEFINITIONS: Final = {
    "operators and wiring": "structure_operators",
    "with attributes and dtypes": "structure",
    "with shapes": "structure_shapes",
}
_HELD: Final = "status IN ('captured', 'duplicate')"


@dataclass(frozen=True, slots=True)
class SchemeCounts:
    """Counts of programs of one scheme in one pass. `tried` is the sum of the next four; `captured` includes
    `proven`."""

    scheme: str
    of: str
    tried: int
    captured: int
    duplicates: int
    left_out: int
    failed: int
    proven: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class DistinctCounts:
    """Counts of distinct graphs of one pass under each definition. `models`: captured programs, duplicates
    included."""

    of: str
    models: int
    graphs: int
    structures: dict[str, int]
    overloads: int
    packets: int


@dataclass(frozen=True, slots=True)
class FailureReason:
    """`count` programs of one scheme failed or were left out with the same normalised message; `example`: one of
    them."""

    scheme: str
    of: str
    status: str
    reason: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class CatalogueStats:
    """All counts of a catalogue.

    `union`: overload packets over all passes. `nbytes`: all files; `bytes_by_folder`: graphs, tables, tensors.
    `verified`: graphs that were read back from disk, `damaged` ones included.
    """

    zoos: tuple[SchemeCounts, ...]
    distinct: tuple[DistinctCounts, ...]
    reasons: tuple[FailureReason, ...]
    union: int
    cpu_seconds: float
    nbytes: int
    bytes_by_folder: dict[str, int]
    verified: int
    damaged: tuple[DamagedGraph, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts as plain data."""
        return asdict(self)


def stats_of(catalogue: Catalogue, on_checked: OnChecked = lambda done, total: None) -> CatalogueStats:
    """Counts a catalogue and reads every graph back. Raises `MindgapError` if nothing was tried in it."""
    rows = catalogue.store.rows
    zoos = tuple(
        SchemeCounts(**row)
        for row in rows(
            f"""SELECT scheme, pass AS of, count(*) AS tried, {_count("status = 'captured'")} AS captured,
                      {_count("status = 'duplicate'")} AS duplicates, {_count("status = 'left_out'")} AS left_out,
                      {_count("status = 'failed'")} AS failed, {_count("status = 'captured' AND proven")} AS proven,
                      coalesce(sum(cpu_seconds), 0.0) AS cpu_seconds
               FROM captures GROUP BY ALL ORDER BY scheme, pass"""
        )
    )
    if not zoos:
        raise MindgapError(f"{catalogue.path}: nothing was ever tried in it; mindgap corpus build fills it")
    folders = {folder.name: _bytes(folder) for folder in sorted(catalogue.path.iterdir()) if folder.is_dir()}
    return CatalogueStats(
        zoos,
        _distinct(catalogue),
        _reasons(catalogue),
        rows(f"SELECT count(DISTINCT {_packet('op')}) AS n FROM ({_used()})")[0]["n"],
        sum(zoo.cpu_seconds for zoo in zoos),
        sum(folders.values()),
        folders,
        rows(f"SELECT count(DISTINCT holder) AS n FROM captures WHERE {_HELD}")[0]["n"],
        damaged_graphs(catalogue, on_checked),
    )  # fmt: skip


def _distinct(catalogue: Catalogue) -> tuple[DistinctCounts, ...]:
    counts = ", ".join(f'count(DISTINCT {column}) AS "{name}"' for name, column in DEFINITIONS.items())
    graphs = catalogue.store.rows(
        f"""SELECT pass AS of, count(*) AS models, count(DISTINCT graph) AS graphs, {counts}
            FROM captures WHERE {_HELD} GROUP BY ALL ORDER BY of"""
    )
    used = catalogue.store.rows(
        f"""SELECT of, count(DISTINCT op) AS overloads, count(DISTINCT {_packet("op")}) AS packets
            FROM ({_used()}) GROUP BY of"""
    )
    operators = {row["of"]: row for row in used}
    return tuple(
        DistinctCounts(
            row["of"], row["models"], row["graphs"], {name: row[name] for name in DEFINITIONS},
            operators[row["of"]]["overloads"], operators[row["of"]]["packets"],
        )
        for row in graphs
    )  # fmt: skip


def _reasons(catalogue: Catalogue) -> tuple[FailureReason, ...]:
    return tuple(
        FailureReason(**row)
        for row in catalogue.store.rows(
            """SELECT scheme, pass AS of, status, arg_min(reason, source) AS reason, count(*) AS count,
                      min(source) AS example
               FROM captures WHERE status IN ('failed', 'left_out')
               GROUP BY scheme, pass, status, signature ORDER BY count DESC, scheme, of, example"""
        )
    )


def _count(condition: str) -> str:
    return f"count(*) FILTER ({condition})"


def _used() -> str:
    """Returns SQL for the operators in graphs: a row for each program, pass (`of`) and operator (`op`)."""
    return f"SELECT pass AS of, unnest(operators) AS op FROM captures WHERE {_HELD}"


def _packet(operator: str) -> str:
    """Returns SQL that converts `aten.add.Tensor` to `aten.add`."""
    return f"array_to_string(string_split({operator}, '.')[1:2], '.')"


def _bytes(folder: Any) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
