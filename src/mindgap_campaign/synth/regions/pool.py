"""Reads and writes the pool of regions, one Parquet file."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mindgap.aten.operators import is_gradient_operator
from mindgap.graph import MindgapError, decode, encode
from mindgap_campaign.synth.regions.region import Origin, Region, ValueStatistics

Codes = np.ndarray[Any, np.dtype[np.intp]]

_FORMAT: Final = "mindgap-pool"
_VERSION: Final = 3
_SPANS: Final = pa.list_(pa.list_(pa.float64(), 4))
_SCHEMA: Final = pa.schema(
    [
        ("graph", pa.binary()),
        ("nodes", pa.int32()),
        ("largest", pa.int64()),
        ("mutated", pa.bool_()),
        ("origin", pa.string()),
        ("free", pa.list_(pa.int32())),
        ("takes", _SPANS),
        ("gives", _SPANS),
        ("features", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
    ]
)


class RegionPool:
    """A pool of regions in fixed order: variants refer to them by number.

    They are held as they are in the file, a few hundred bytes each, and made into objects one by one when needed.
    """

    def __init__(self, table: pa.Table) -> None:
        """`table`: of `_SCHEMA`; for regions there is `RegionPool.of`."""
        self._table = table.unify_dictionaries().combine_chunks()

    @staticmethod
    def of(regions: Iterable[Region]) -> RegionPool:
        """The regions in the order given."""
        return RegionPool(_table(list(regions)))

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitem__(self, number: int) -> Region:
        """Decodes one region. Raises `MindgapError` if the file is damaged."""
        (region,) = _regions(self._table.slice(number, 1))
        return region

    def __iter__(self) -> Iterator[Region]:
        return _regions(self._table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegionPool) and self.digest == other.digest

    __hash__ = None  # pyright: ignore[reportAssignmentType] # not needed, and the digest takes its time

    @cached_property
    def digest(self) -> str:
        """Returns the SHA-256, in hex, of every region's graph and border statistics."""
        hasher = hashlib.sha256()
        for batch in self._table.select(["graph", "free", "takes", "gives"]).to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                hasher.update(row["graph"] + json.dumps([row["free"], row["takes"], row["gives"]]).encode())
        return hasher.hexdigest()

    @cached_property
    def nodes(self) -> list[int]:
        """Returns the number of nodes of each region."""
        return self._table["nodes"].to_pylist()

    @cached_property
    def largest(self) -> list[int]:
        """Returns the number of elements of each region's largest value."""
        return self._table["largest"].to_pylist()

    @cached_property
    def mutated(self) -> list[bool]:
        """Returns whether each region is mutated."""
        return self._table["mutated"].to_pylist()

    @cached_property
    def gradients(self) -> list[bool]:
        """Returns whether each region has an operator that only a backward pass calls."""
        pairs = [name.partition("|") for name in self.feature_names]
        of = np.array([bool(bar) and is_gradient_operator(op) for op, bar, _ in pairs], np.bool_)
        return [bool(of[self.feature_codes(number)].any()) for number in range(len(self))]

    @cached_property
    def feature_names(self) -> list[str]:
        """Returns the features that all regions cover. A feature's code is its position here."""
        return self._features.values.dictionary.to_pylist()

    @cached_property
    def _features(self) -> Any:
        return self._table["features"].combine_chunks()

    @cached_property
    def _feature_codes(self) -> tuple[list[int], Codes]:
        """Returns, for each region, the offset of its codes, and all codes."""
        # The integers that numpy looks up with: others are converted at every look-up.
        codes = self._features.values.indices.to_numpy().astype(np.intp)
        return self._features.offsets.to_pylist(), codes

    def feature_codes(self, number: int) -> Codes:
        """Returns the codes of the features that a region covers."""
        starts, codes = self._feature_codes
        return codes[starts[number] : starts[number + 1]]

    def save(self, path: str | Path, made_of: str = "", made: str = "") -> None:
        """Writes one Parquet file, atomically. Raises `MindgapError` if it cannot be written.

        `made_of`: identifies the sources and options. `made`: a report of the sampling. Both are metadata of the file.
        """
        marks = {"format": _FORMAT, "version": str(_VERSION), "digest": self.digest, "made_of": made_of, "made": made}
        where = Path(path)
        temporary = where.with_name(where.name + ".part")
        try:
            where.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(self._table.replace_schema_metadata(marks), temporary, compression="zstd")
            temporary.replace(where)
        except OSError as error:
            raise MindgapError(
                f"pool {where} cannot be written: {error.strerror or error}; name another place"
            ) from None

    @staticmethod
    def load(path: str | Path) -> RegionPool:
        """Reads a file of `save`. Raises `MindgapError` for any other file, a damaged one, or another version."""
        marks = pool_metadata(path)
        try:
            pool = RegionPool(pq.read_table(Path(path), schema=_SCHEMA))
        except (OSError, pa.ArrowException) as error:
            raise MindgapError(f"pool {path} is damaged: {error}; remove it to have it made again") from None
        pa.default_memory_pool().release_unused()
        if pool.digest != marks["digest"]:
            raise MindgapError(f"pool {path} is damaged: its digest is another; remove it to have it made again")
        return pool


def pool_metadata(path: str | Path) -> dict[str, str]:
    """Reads the metadata of a pool's file: `digest`, `made_of`, `made` (not in older files). Raises `MindgapError`."""
    try:
        metadata = pq.read_schema(Path(path)).metadata or {}
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise MindgapError(f"pool {path} cannot be read: {reason}; remove it to have it made again") from None
    marks = {key.decode(): value.decode() for key, value in metadata.items()}
    if marks.get("format") != _FORMAT:
        raise MindgapError(f"{path} is no pool of regions: name another file")
    if marks["version"] != str(_VERSION):
        raise MindgapError(f"pool {path} is of version {marks['version']}, this mindgap reads {_VERSION}: remove it")
    return marks


def to_bytes(regions: Sequence[Region]) -> bytes:
    """Encodes regions for another process; `join_regions` reads them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_table(_table(regions))
    return sink.getvalue().to_pybytes()


def join_regions(parts: Iterable[bytes]) -> RegionPool:
    """Builds a pool from the parts of `to_bytes`, in order, each graph once."""
    table = pa.concat_tables([_table(()), *(pa.ipc.open_stream(part).read_all() for part in parts)])
    seen: set[bytes] = set()
    fresh: list[bool] = []
    for graph in table["graph"].to_pylist():
        fresh.append(graph not in seen)
        seen.add(graph)
    return RegionPool(table.filter(pa.array(fresh, pa.bool_())))


def _table(regions: Sequence[Region]) -> pa.Table:
    columns: dict[str, Sequence[Any]] = {
        "graph": [encode(region.graph, labels=False) for region in regions],
        "nodes": [len(region.graph.nodes) for region in regions],
        "largest": [max((spec.numel for spec in region.graph.values if spec), default=0) for region in regions],
        "mutated": [bool(region.origin.kinds) for region in regions],
        "origin": [region.origin.to_json() for region in regions],
        "free": [region.free for region in regions],
        "takes": [[astuple(span) for span in region.input_spans] for region in regions],
        "gives": [[None if s is None else astuple(s) for s in region.output_spans] for region in regions],
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
                tuple(ValueStatistics(*span) for span in row["takes"]),
                tuple(None if span is None else ValueStatistics(*span) for span in row["gives"]),
                tuple(row["features"]),
            )
