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

from mindgap.results.store import MergeCounts, Store
from mindgap_campaign.campaign.cases.bundle import ABOUT, FORMAT, PLAN, REFERENCE, VERSION, BundleError, BundleFile
from mindgap_campaign.campaign.cases.case import BLOCK, CaseSource
from mindgap_campaign.campaign.plan import parse_plan
from mindgap_campaign.campaign.state.directory import CampaignDirectory

#: Zip files hold a date; equal bundles shall be equal bytes.
_DATE: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class BundleSummary:
    """The number of cases and bytes of a bundle."""

    cases: int
    nbytes: int


def export(
    directory: CampaignDirectory, case_source: CaseSource, path: str | Path, platforms: Sequence[str] = ()
) -> BundleSummary:
    """Writes a bundle of the cases that the campaign's reference has run.

    `platforms`: platforms to run every case, instead of the plan's. Raises `MindgapError` if nothing ran yet, or the
    file cannot be written.
    """
    store, path = directory.store, Path(path)
    ran = _ran(store, directory.run)
    if not ran:
        raise BundleError(f"{directory.path}: nothing has run yet, so there is nothing to export")
    text = _plan_text(directory, platforms)
    plan = parse_plan(text, "the plan of the bundle")
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(temporary, "w") as file:
            hashes = _write(file, directory, case_source, ran, text, store)
            about = {"format": FORMAT, "version": VERSION, "run": directory.run, "reference": plan.reference,
                     "cases": sum(map(len, ran.values())), "blocks": sorted(ran), "sha256": hashes}  # fmt: skip
            _add(file, ABOUT, json.dumps(about, indent=1).encode())
        temporary.rename(path)
    except OSError as error:
        raise BundleError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return BundleSummary(sum(map(len, ran.values())), path.stat().st_size)


def agreement(directory: CampaignDirectory) -> tuple[int, int] | None:
    """Compares the reference here with the reference where the bundle was made.

    Returns the number of cases with equal bits, and the number of cases that both ran. None for a campaign without a
    bundle. Raises `MindgapError`.
    """
    if directory.bundle is None:
        return None
    table = pq.read_table(io.BytesIO(BundleFile(directory.bundle).read(REFERENCE)))
    home = {row["model"]: row["outputs"] for row in table.to_pylist()}
    here = directory.store.rows(
        "SELECT model, list_transform(outputs, lambda o: o.digest) AS outputs FROM outcomes "
        "WHERE run = ? AND platform = ?",
        [directory.run, directory.plan.reference],
    )
    both = [(row["outputs"], home[row["model"]]) for row in here if row["outputs"] and home.get(row["model"])]
    return sum(one == other for one, other in both), len(both)


def import_results(directory: CampaignDirectory, paths: Sequence[str | Path]) -> MergeCounts:
    """Copies results of another machine into the campaign's store. `paths`: campaign directories or segments.

    Raises `MindgapError` for any other path, and for a damaged segment. Importing twice changes nothing more.
    """
    store, segments = directory.store, [Path(path) for path in paths if Path(path).is_file()]
    total = MergeCounts(0, 0, 0)
    for path in paths:
        if not Path(path).is_file():
            total = _sum(total, store.merge(Store(path, create=False)))
    if segments:
        with tempfile.TemporaryDirectory(prefix="mindgap-import-") as scratch:
            other = Store(scratch)
            for path in segments:
                target = Path(scratch) / "tables" / _table_of(path)
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target / path.name)
            total = _sum(total, store.merge(other))
    return total


def _ran(store: Store, run: str) -> dict[int, set[str]]:
    """Returns the names of the cases that have run, by block."""
    ran: defaultdict[int, set[str]] = defaultdict(set)
    for row in store.rows("SELECT model, position // $block AS block FROM models WHERE run = $run",
                          {"run": run, "block": BLOCK}):  # fmt: skip
        ran[row["block"]].add(row["model"])
    return dict(ran)


def _write(
    file: zipfile.ZipFile,
    directory: CampaignDirectory,
    case_source: CaseSource,
    ran: Mapping[int, set[str]],
    text: str,
    store: Store,
) -> dict[str, str]:
    """Writes all members except the list. Returns their hashes."""
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
    pq.write_table(pa.table(store.query(sql, [directory.run, directory.plan.reference])), sink, compression="zstd")
    hashes[REFERENCE] = _add(file, REFERENCE, sink.getvalue(), zipfile.ZIP_STORED)
    return hashes


def _add(file: zipfile.ZipFile, name: str, data: bytes, how: int = zipfile.ZIP_DEFLATED) -> str:
    about = zipfile.ZipInfo(name, _DATE)
    about.compress_type = how
    file.writestr(about, data)
    return hashlib.sha256(data).hexdigest()


def _plan_text(directory: CampaignDirectory, platforms: Sequence[str]) -> str:
    """Returns the text of the plan's file; with other or added platforms, the plan written as TOML."""
    text = (directory.path / PLAN).read_text(encoding="utf-8")
    if not platforms and not directory.added:
        return text
    data = tomllib.loads(text)
    if platforms:
        data["platforms"] = {platform: dict[str, Any]() for platform in platforms}
    else:
        added = {str(name): settings.model_dump(exclude_defaults=True) for name, settings in directory.added.items()}
        data["platforms"] = {**data["platforms"], **added}
    return "".join(f"{line}\n" for line in _toml(data))


def _toml(data: Mapping[str, Any]) -> list[str]:
    """Writes a plan as TOML: two levels of tables, inline tables below."""
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


def _sum(one: MergeCounts, other: MergeCounts) -> MergeCounts:
    return MergeCounts(one.segments + other.segments, one.graphs + other.graphs, one.tensors + other.tensors)
