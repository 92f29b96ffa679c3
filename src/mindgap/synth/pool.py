"""The regions that variants are made of, as one file."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mindgap.graph import GraphError, MindgapError, decode, encode
from mindgap.synth.region import Origin, Region, Span

_FORMAT: Final = "mindgap-pool"
_VERSION: Final = 1
_SPANS: Final = pa.list_(pa.list_(pa.float64(), 4))
_SCHEMA: Final = pa.schema(
    [
        ("graph", pa.binary()),
        ("origin", pa.string()),
        ("free", pa.list_(pa.int32())),
        ("takes", _SPANS),
        ("gives", _SPANS),
        ("features", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
    ]
)


@dataclass(frozen=True)
class Pool:
    """Regions in an order that is part of what the pool is: variants name them by number."""

    regions: tuple[Region, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of every region's graph and of what is known of its borders."""
        found = hashlib.sha256()
        for region in self.regions:
            found.update(_identity(region))
        return found.hexdigest()

    def save(self, path: str | Path, made_of: str = "") -> None:
        """Writes one Parquet file, with one rename. `made_of`: what its maker wants to know it by."""
        marks = {"format": _FORMAT, "version": str(_VERSION), "digest": self.digest, "made_of": made_of}
        where = Path(path)
        where.parent.mkdir(parents=True, exist_ok=True)
        beside = where.with_name(where.name + ".part")
        pq.write_table(_table(self.regions).replace_schema_metadata(marks), beside, compression="zstd")
        beside.replace(where)

    @staticmethod
    def load(path: str | Path) -> Pool:
        """Reads what `save` wrote. Raises `MindgapError` for a file that is none, damaged, or of another version."""
        marks = marks_of(path)
        try:
            pool = Pool(tuple(_regions(pq.read_table(Path(path)))))
        except (GraphError, OSError, pa.ArrowException) as error:
            raise MindgapError(f"pool {path} is damaged: {error}; remove it to have it made again") from None
        if pool.digest != marks["digest"]:
            raise MindgapError(f"pool {path} is damaged: its digest is another; remove it to have it made again")
        return pool


def marks_of(path: str | Path) -> dict[str, str]:
    """What a pool's file says of itself: `digest`, `made_of`. Raises `MindgapError` as `Pool.load` does."""
    try:
        found = pq.read_schema(Path(path)).metadata or {}
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise MindgapError(f"pool {path} cannot be read: {reason}; remove it to have it made again") from None
    marks = {key.decode(): value.decode() for key, value in found.items()}
    if marks.get("format") != _FORMAT:
        raise MindgapError(f"{path} is no pool of regions: name another file")
    if marks["version"] != str(_VERSION):
        raise MindgapError(f"pool {path} is of version {marks['version']}, this mindgap reads {_VERSION}: remove it")
    return marks


def to_bytes(regions: Sequence[Region]) -> bytes:
    """Regions for another process; `of_bytes` is the inverse."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_table(_table(regions))
    return sink.getvalue().to_pybytes()


def of_bytes(data: bytes) -> Iterator[Region]:
    """The regions that `to_bytes` wrote."""
    with pa.ipc.open_stream(data) as stream:
        yield from _regions(stream.read_all())


def distinct(regions: Iterable[Region]) -> Pool:
    """A pool of the regions in the order given, each graph once."""
    seen: set[bytes] = set()
    kept: list[Region] = []
    for region in regions:
        key = hashlib.sha256(encode(region.graph, labels=False)).digest()
        if key not in seen:
            seen.add(key)
            kept.append(region)
    return Pool(tuple(kept))


def _identity(region: Region) -> bytes:
    borders = [list(region.free), [astuple(s) for s in region.takes], [s and astuple(s) for s in region.gives]]
    return encode(region.graph, labels=False) + json.dumps(borders).encode()


def _table(regions: Sequence[Region]) -> pa.Table:
    columns: dict[str, Sequence[Any]] = {
        "graph": [encode(region.graph, labels=False) for region in regions],
        "origin": [region.origin.to_json() for region in regions],
        "free": [region.free for region in regions],
        "takes": [[astuple(span) for span in region.takes] for region in regions],
        "gives": [[None if s is None else astuple(s) for s in region.gives] for region in regions],
        "features": [region.features for region in regions],
    }
    return pa.table(columns, schema=_SCHEMA)


def _regions(table: pa.Table) -> Iterator[Region]:
    for batch in table.to_batches(max_chunksize=1000):
        for row in batch.to_pylist():
            yield Region(
                decode(row["graph"]),
                Origin.from_json(row["origin"]),
                tuple(row["free"]),
                tuple(Span(*span) for span in row["takes"]),
                tuple(None if span is None else Span(*span) for span in row["gives"]),
                tuple(row["features"]),
            )
