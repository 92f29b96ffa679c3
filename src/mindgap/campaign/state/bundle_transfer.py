"""Exports the cases of a campaign as a bundle, and imports the results that another machine wrote."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow has no types)

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mindgap.campaign.cases.bundle import ABOUT, FORMAT, PLAN, REFERENCE, VERSION, BundleError, BundleFile
from mindgap.campaign.cases.case import BLOCK, CaseSource
from mindgap.campaign.plan import parse_plan
from mindgap.campaign.state.directory import CampaignDirectory
from mindgap.store import Merged, Store

#: Zip files hold a date; equal bundles shall be equal bytes.
_DATE: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class BundleSummary:
    """The size of a bundle."""

    cases: int
    nbytes: int


def export(
    folder: CampaignDirectory, case_source: CaseSource, path: str | Path, platforms: Sequence[str] = ()
) -> BundleSummary:
    """Writes a bundle of the cases that the campaign's reference has run. `platforms`: those meant to run them, for
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
            about = {"format": FORMAT, "version": VERSION, "run": folder.run, "reference": plan.reference,
                     "cases": sum(map(len, ran.values())), "blocks": sorted(ran), "sha256": hashes}  # fmt: skip
            _add(file, ABOUT, json.dumps(about, indent=1).encode())
        temporary.rename(path)
    except OSError as error:
        raise BundleError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return BundleSummary(sum(map(len, ran.values())), path.stat().st_size)


def agreement(folder: CampaignDirectory) -> tuple[int, int] | None:
    """Of the cases that both references ran, here and where the bundle was made, how many gave equal bits; and of how
    many. None for a campaign without a bundle. Raises `MindgapError`.
    """
    if folder.bundle is None:
        return None
    table = pq.read_table(io.BytesIO(BundleFile(folder.bundle).read(REFERENCE)))
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
    hashes[REFERENCE] = _add(file, REFERENCE, sink.getvalue(), zipfile.ZIP_STORED)
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
