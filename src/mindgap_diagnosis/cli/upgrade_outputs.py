"""Writes what an upgrade changes: a table, JUnit XML, JSON, the page."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.text import Text

from mindgap.cli.outputs import write_file
from mindgap.cli.tables import Lines, RowLine, print_blocks, print_rows, remark
from mindgap.report.finding_blocks import blocks
from mindgap.workflows.diff import Row
from mindgap_diagnosis.versions.upgrade import (
    CHANGES,
    TO_LOOK_AT,
    Change,
    PlatformUpgrade,
    Upgrade,
    change_of,
    together,
)

if TYPE_CHECKING:
    from mindgap_diagnosis.versions.version_changes import ReducedChange

_WRONG: Final = {"platform": "the new version", "reference": "the old version", "undecided": "undecided"}
_QUIET: Final[frozenset[Change]] = frozenset(("calm", "same", "absent"))


def write_junit(file: Path, found: Sequence[PlatformUpgrade]) -> None:
    """Writes JUnit XML of all platforms: what is to be looked at fails. Raises `MindgapError`."""
    from mindgap.report import junit_xml

    ran = {
        (model.name, each.after): model.reference_status in ("ok", "nondeterministic")
        for each in found
        for model in each.report.models
    }

    def fails(row: Row) -> bool | None:
        change = change_of(row, before_ran=ran.get((row.model, row.platform), False))
        return None if change == "unknown" or row.known else change in TO_LOOK_AT

    # A platform that compared nothing is listed in a separate suite.
    parts = [junit_xml(dataclasses.replace(each.report, refused=()), fails) for each in found if each.report.nothing]
    all_rows = together([each for each in found if not each.report.nothing] or found)
    write_file(file, _joined([junit_xml(all_rows, fails), *(parts if len(parts) < len(found) else [])]))


def _joined(documents: Sequence[str]) -> str:
    first, *others = (ET.fromstring(text) for text in documents)
    for other in others:
        first.extend(other)
        for name in ("tests", "failures", "errors", "skipped"):
            first.set(name, str(int(first.get(name, "0")) + int(other.get(name, "0"))))
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(first, encoding="unicode") + "\n"


def page(file: Path, upgraded: Upgrade, reduced: Sequence[ReducedChange], out: Path | None) -> None:
    """Writes the page. `out`: where the scripts are. Raises `MindgapError`."""
    from mindgap_diagnosis.report.upgrade_page import upgrade_page

    write_file(file, upgrade_page(upgraded, reduced, _scripts(reduced, out)))


def json_text(upgraded: Upgrade, reduced: Sequence[ReducedChange], before: str | None, after: str | None) -> str:
    """Everything as one JSON object."""
    data: dict[str, Any] = {
        "from": before,
        "to": after,
        "platforms": [each.as_json() for each in upgraded.platforms],
        "schemas": [dataclasses.asdict(each) for each in upgraded.schemas],
        "reproducers": [dataclasses.asdict(each) for each in reduced],
    }
    return json.dumps(data, indent=1) + "\n"


def _scripts(reduced: Sequence[ReducedChange], out: Path | None) -> dict[str, str]:
    """The text of each script, by the name of its file; of a model file, the command that runs it."""
    scripts = [] if out is None else [(each.summary, out / each.summary.script) for each in reduced if each.summary]
    return {made.script: made.command or file.read_text(encoding="utf-8") for made, file in scripts}


def print_upgrade(upgraded: Upgrade, out: TextIO) -> None:
    """Prints what is to be looked at, for each platform, and operators with another schema."""
    lines = Lines(out)
    for each in upgraded.platforms:
        versions = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in each.versions.items())
        lines.put(Text(f"{each.before} -> {each.after}: {versions}", style="bold"), 2)
        pairs = zip(each.report.rows, each.changes, strict=True)
        shown = [(row, change) for row, change in pairs if change not in _QUIET]
        shown.sort(key=lambda pair: CHANGES.index(pair[1]))
        print_rows(lines, [RowLine(row.model, _word(row, change), remark(row)) for row, change in shown])
        print_blocks(lines, blocks(dataclasses.replace(each.report, rows=tuple(row for row, _ in shown)), _WRONG))
        totals = ", ".join(f"{count} {change}" for change, count in each.totals.items()) or "nothing"
        lines.put(Text(f"{len(each.report.rows)} models: {totals}"), 2)
    if upgraded.schemas:
        lines.put(Text("Operators with another schema", style="bold"))
        names = [f"{schema.op} ({len(schema.models)} models)" for schema in upgraded.schemas]
        changes = ["; ".join(schema.changes) for schema in upgraded.schemas]
        print_rows(lines, [RowLine(name, Text(), text) for name, text in zip(names, changes, strict=True)])


def _word(row: Row, change: str) -> Text:
    style = "bold red" if change in TO_LOOK_AT and not row.known else ""
    return Text(f"{change}{' (known)' if row.known else ''}", style=style)
