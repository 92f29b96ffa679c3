"""Writes and reads bundles, which carry a campaign to a machine without network in one file.

```
mindgap-pack.json      what this is, and what is in it; hashes of the other members
campaign.toml          the plan, with the platforms that are meant
blocks/00000.json      name, digest, description … of each case, and where its bytes are in
blocks/00000.graphs    the graphs' bytes, one after the other
reference.parquet      the outcomes of the reference at home, with digests of its outputs
```

There the reference runs as well, so that results are whole by themselves. What both references did can be compared
when the results are back: they are a run of their own in the store.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mindgap.campaign.cases.case import BLOCK, Case, CaseSource, graphs_of
from mindgap.campaign.plan import Plan, parse_plan
from mindgap.campaign.state.directory import PACK, PLAN, CampaignDirectory
from mindgap.graph import Graph, GraphError, MindgapError, digest_of_bytes
from mindgap.store import Merged, Store

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow has no types)

_ABOUT: Final = "mindgap-pack.json"
_REFERENCE: Final = "reference.parquet"
_FORMAT: Final = "mindgap-pack"
_VERSION: Final = 1
#: Zip files hold a date; equal packs shall be equal bytes.
_DATE: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class BundleSummary:
    """What went into a pack."""

    cases: int
    nbytes: int


class BundleError(MindgapError):
    """A pack that cannot be read or made. The message names the file."""


def export(
    folder: CampaignDirectory, case_source: CaseSource, path: str | Path, platforms: Sequence[str] = ()
) -> BundleSummary:
    """Writes a pack of the cases that the campaign's reference has run. `platforms`: those meant to run them, for
    every case, instead of the plan's. Raises `MindgapError` where nothing ran yet, or the file cannot be written.
    """
    store, path = folder.store, Path(path)
    ran = _ran(store, folder.run)
    if not ran:
        raise BundleError(f"{folder.path}: nothing has run yet, so there is nothing to export")
    text = _plan_text(folder, platforms)
    plan = parse_plan(text, "the plan of the pack")
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(temporary, "w") as file:
            hashes = _write(file, folder, case_source, ran, text, store)
            about = {"format": _FORMAT, "version": _VERSION, "run": folder.run, "reference": plan.reference,
                     "cases": sum(map(len, ran.values())), "blocks": sorted(ran), "sha256": hashes}  # fmt: skip
            _add(file, _ABOUT, json.dumps(about, indent=1).encode())
        temporary.rename(path)
    except OSError as error:
        raise BundleError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return BundleSummary(sum(map(len, ran.values())), path.stat().st_size)


def is_bundle(path: str | Path) -> bool:
    """Whether the file looks like a pack rather than like a plan."""
    return zipfile.is_zipfile(path)


def plan_of(path: str | Path) -> tuple[Plan, str]:
    """The plan in a pack, and its text. Raises `BundleError`."""
    text = _Reader(Path(path)).text(PLAN)
    return parse_plan(text, f"{path}/{PLAN}"), text


@dataclass(frozen=True)
class BundleSourceFactory:
    """The source of a campaign whose cases are in a pack, which the folder keeps a copy of."""

    path: Path

    def begin(self, plan: Plan, folder: Path) -> BundleSource:
        try:
            shutil.copyfile(self.path, folder / PACK)
        except OSError as error:
            raise BundleError(f"{self.path} cannot be copied to {folder}: {error.strerror}") from None
        return BundleSource(folder / PACK)

    def again(self, plan: Plan, folder: Path) -> BundleSource:
        return BundleSource(folder / PACK)


class BundleSource:
    """The cases of a pack. Each is checked to be what its digest says."""

    def __init__(self, path: Path) -> None:
        """Raises `BundleError` for what is none, or of another version."""
        self._file = _Reader(path)

    @property
    def identity(self) -> str:
        """Of all that the pack holds."""
        return hashlib.sha256(json.dumps(self._file.about["sha256"], sort_keys=True).encode()).hexdigest()

    def block(self, number: int) -> list[Case]:
        """Raises `BundleError` for a damaged pack."""
        if number not in self._file.about["blocks"]:
            return []
        listed: list[dict[str, Any]] = json.loads(self._file.read(f"blocks/{number:05d}.json"))
        data = self._file.read(f"blocks/{number:05d}.graphs")
        return [self._case(entry, data) for entry in listed]

    def samples(self, blocks: Sequence[int]) -> Iterator[Graph]:
        """The cases themselves. Raises `BundleError` for a damaged pack."""
        return graphs_of(self, blocks)

    def _case(self, entry: Mapping[str, Any], data: bytes) -> Case:
        graph = data[entry["start"] : entry["start"] + entry["size"]]
        try:
            sound = digest_of_bytes(graph) == entry["digest"]
        except GraphError as error:
            raise BundleError(f"{self._file.path}: case {entry['name']}: {error}") from None
        if not sound:
            raise BundleError(f"{self._file.path}: case {entry['name']} is another graph than its digest says")
        return Case(
            entry["index"], entry["name"], graph, entry["digest"], entry["description"], tuple(entry["features"]),
            entry["nodes"], entry["base"],
        )  # fmt: skip


def agreement(folder: CampaignDirectory) -> tuple[int, int] | None:
    """Of the cases that both references ran, here and where the pack was made, how many gave equal bits; and of how
    many. None for a campaign without a pack. Raises `MindgapError`.
    """
    if folder.pack is None:
        return None
    table = pq.read_table(io.BytesIO(_Reader(folder.pack).read(_REFERENCE)))
    home = {row["model"]: row["outputs"] for row in table.to_pylist()}
    here = folder.store.rows(
        "SELECT model, list_transform(outputs, lambda o: o.digest) AS outputs FROM outcomes "
        "WHERE run = ? AND platform = ?",
        [folder.run, folder.plan.reference],
    )
    both = [(row["outputs"], home[row["model"]]) for row in here if row["outputs"] and home.get(row["model"])]
    return sum(one == other for one, other in both), len(both)


def import_results(folder: CampaignDirectory, paths: Sequence[str | Path]) -> Merged:
    """Copies what another machine wrote into the campaign's store: other campaigns' directories, or single segments.

    Raises `MindgapError` for what is neither, and for a damaged segment; doing it twice changes nothing more.
    """
    store, segments = folder.store, [Path(path) for path in paths if Path(path).is_file()]
    total = Merged(0, 0, 0)
    for path in paths:
        if not Path(path).is_file():
            total = _sum(total, store.merge(Store(path, create=False)))
    if segments:
        with tempfile.TemporaryDirectory(prefix="mindgap-import-") as directory:
            other = Store(directory)
            for path in segments:
                place = Path(directory) / "tables" / _table_of(path)
                place.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place / path.name)
            total = _sum(total, store.merge(other))
    return total


class _Reader:
    """A zip file whose members are what its list says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as file:
                self.about: dict[str, Any] = json.loads(file.read(_ABOUT))
            known = (self.about["format"], self.about["version"])
        except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
            raise BundleError(f"{path} is no pack, or damaged ({error}): make it again with campaign export") from None
        if known != (_FORMAT, _VERSION):
            raise BundleError(f"{path} is a pack of version {known[1]}, this mindgap reads {_VERSION}")

    def read(self, name: str) -> bytes:
        """A member's bytes, checked."""
        try:
            with zipfile.ZipFile(self.path) as file:
                data = file.read(name)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise BundleError(f"{self.path} is damaged at {name} ({error}): copy it again") from None
        if hashlib.sha256(data).hexdigest() != self.about["sha256"].get(name):
            raise BundleError(f"{self.path} is damaged at {name}: copy it again")
        return data

    def text(self, name: str) -> str:
        return self.read(name).decode()


def _ran(store: Store, run: str) -> dict[int, set[str]]:
    """Names of the cases that have run, by block."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for row in store.rows("SELECT model, position // $block AS block FROM models WHERE run = $run",
                          {"run": run, "block": BLOCK}):  # fmt: skip
        found[row["block"]].add(row["model"])
    return dict(found)


def _write(
    file: zipfile.ZipFile,
    folder: CampaignDirectory,
    case_source: CaseSource,
    ran: Mapping[int, set[str]],
    text: str,
    store: Store,
) -> dict[str, str]:
    """All members but the list; their hashes."""
    hashes = {PLAN: _add(file, PLAN, text.encode())}
    for number in sorted(ran):
        cases = [case for case in case_source.block(number) if case.name in ran[number]]
        listed: list[dict[str, Any]] = []
        start = 0
        for case in cases:
            listed.append({
                "index": case.index, "name": case.name, "digest": case.digest, "description": case.description,
                "features": case.features, "nodes": case.nodes, "base": case.base, "start": start,
                "size": len(case.data),
            })  # fmt: skip
            start += len(case.data)
        name = f"blocks/{number:05d}"
        hashes[f"{name}.json"] = _add(file, f"{name}.json", json.dumps(listed).encode())
        # They are compressed already.
        graphs = b"".join(case.data for case in cases)
        hashes[f"{name}.graphs"] = _add(file, f"{name}.graphs", graphs, zipfile.ZIP_STORED)
    sql = (
        "SELECT model, graph, status, fingerprint, list_transform(outputs, lambda o: o.digest) AS outputs "
        "FROM outcomes WHERE run = ? AND platform = ? ORDER BY model"
    )
    sink = io.BytesIO()
    pq.write_table(pa.table(store.query(sql, [folder.run, folder.plan.reference])), sink, compression="zstd")
    hashes[_REFERENCE] = _add(file, _REFERENCE, sink.getvalue(), zipfile.ZIP_STORED)
    return hashes


def _add(file: zipfile.ZipFile, name: str, data: bytes, how: int = zipfile.ZIP_DEFLATED) -> str:
    about = zipfile.ZipInfo(name, _DATE)
    about.compress_type = how
    file.writestr(about, data)
    return hashlib.sha256(data).hexdigest()


def _plan_text(folder: CampaignDirectory, platforms: Sequence[str]) -> str:
    """The plan as it was written; where the platforms are others, as TOML again."""
    text = (folder.path / PLAN).read_text(encoding="utf-8")
    if not platforms:
        return text
    data = tomllib.loads(text)
    data["platforms"] = {platform: dict[str, Any]() for platform in platforms}
    return "".join(f"{line}\n" for line in _toml(data))


def _toml(data: Mapping[str, Any]) -> list[str]:
    """A plan's tables: two levels, and inline below."""
    lines = [f"{json.dumps(key)} = {_inline(value)}" for key, value in data.items() if not isinstance(value, dict)]
    for key, table in data.items():
        if isinstance(table, dict):
            lines += [f"[{json.dumps(key)}]", *(f"{json.dumps(str(k))} = {_inline(v)}" for k, v in table.items())]
    return lines


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return json.dumps(value)


def _table_of(path: Path) -> str:
    try:
        metadata = pq.read_metadata(path).metadata or {}
        return metadata[b"mindgap.table"].decode()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise BundleError(f"{path} is no segment of a store ({str(error).splitlines()[0]}): copy it again") from None


def _sum(one: Merged, other: Merged) -> Merged:
    return Merged(one.segments + other.segments, one.graphs + other.graphs, one.tensors + other.tensors)
