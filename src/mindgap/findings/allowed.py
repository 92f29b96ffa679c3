"""Accepts findings on purpose: `openvino/cpu: float32 products in bfloat16`.

A line names a platform and what is allowed there: a dtype policy or an operator. Above its ceiling, the largest
relative error, it is a finding again. Lines stand in `pyproject.toml` or are given to a command or to `mark_allowed`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Strict, TypeAdapter, ValidationError

from mindgap.graph import MindgapError
from mindgap.graph.compare.culprit import DtypePolicy
from mindgap.graph.compare.verdict import Fault
from mindgap.results.rows import Report, Row

_EXAMPLE: Final = (
    "'openvino/cpu: float32 products in bfloat16' or 'onnxruntime/*: aten.gelu.default, max_relative=0.01'"
)
_LINE: Final = re.compile(
    r"(?P<platform>\S+?)\s*:\s+(?P<what>[^,]+?)\s*(?:,\s*max_relative\s*=\s*(?P<ceiling>[\d.eE+-]+)\s*)?"
)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is allowed on a platform.

    platform: a platform's name, or a pattern of names (`openvino/*`). A name without options means that name alone.
    what: a dtype policy (`float32 products in bfloat16`, `int8 saturates`), or a pattern of operators (`aten.gelu.*`).
    max_relative: the largest relative error (docs/metrics.md) that is allowed; None for any.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    platform: str
    what: str
    max_relative: Annotated[float, Strict()] | None = None

    def __str__(self) -> str:
        ceiling = "" if self.max_relative is None else f", max_relative={self.max_relative:g}"
        return f"{self.platform}: {self.what}{ceiling}"

    def names(self, row: Row, fault: Fault) -> bool:
        """Whether it is about this fault, of any size."""
        if fault.culprit is None or not fnmatchcase(row.platform, self.platform):
            return False
        if isinstance(fault.culprit, DtypePolicy):
            return self.what.replace(" computed in ", " in ") == fault.culprit.words.replace(" computed in ", " in ")
        return fnmatchcase(fault.culprit.op, self.what)

    def within(self, row: Row) -> bool:
        """Whether the row's relative error is at most the ceiling. One that was not measured is above each."""
        if self.max_relative is None:
            return True
        error = row.metrics.get("relative_error")
        return error is not None and error <= self.max_relative


_ALLOWANCE: Final = TypeAdapter(Allowance)


def parse_allowance(text: str, where: str = "--allow") -> Allowance:
    """Parses `PLATFORM: WHAT[, max_relative=NUMBER]`. Raises `MindgapError`."""
    match = _LINE.fullmatch(text.strip())
    if match is None:
        raise MindgapError(f"{where} {text!r}: write PLATFORM: WHAT, as in {_EXAMPLE}")
    ceiling = match["ceiling"]
    try:
        return _checked(Allowance(match["platform"], match["what"], None if ceiling is None else float(ceiling)), where)
    except ValueError:
        raise MindgapError(f"{where} {text!r}: max_relative is not a number") from None


def _checked(allowance: Allowance, where: str) -> Allowance:
    if allowance.max_relative is not None and not 0 < allowance.max_relative < float("inf"):
        raise MindgapError(f"{where} '{allowance}': max_relative must be more than 0, and finite")
    return allowance


def project_allowances(folder: Path) -> tuple[Allowance, ...]:
    """Reads `[tool.mindgap] allow = [...]` of the closest `pyproject.toml`, in `folder` or above it.

    An entry is a line as for `parse_allowance`, or a table with `platform`, `what` and, if wanted, `max_relative`. No
    file or no such list: none. Raises `MindgapError` for a file or an entry that is wrong.
    """
    file = next((at / "pyproject.toml" for at in (folder, *folder.parents) if (at / "pyproject.toml").is_file()), None)
    if file is None:
        return ()
    try:
        data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MindgapError(f"{file} cannot be read: {error}") from None
    section: dict[str, Any] = data.get("tool", {}).get("mindgap", {})
    if unknown := sorted(set(section) - {"allow"}):
        raise MindgapError(f"{file}: [tool.mindgap] has no {unknown[0]!r}; its one key is allow")
    entries: Any = section.get("allow", [])
    where = f"{file}: [tool.mindgap] allow:"
    if not isinstance(entries, list):
        raise MindgapError(f"{where} it must be a list, as in allow = ['openvino/cpu: float32 products in bfloat16']")
    return tuple(_entry(entry, where) for entry in entries)  # pyright: ignore[reportUnknownVariableType] # any TOML


def _entry(entry: Any, where: str) -> Allowance:
    if isinstance(entry, str):
        return parse_allowance(entry, where)
    try:
        return _checked(_ALLOWANCE.validate_python(entry), where)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}: " for part in first["loc"])
        raise MindgapError(f"{where} {entry!r}: {place}{first['msg']}") from None


def mark_allowed(report: Report, allowed: Iterable[Allowance | str]) -> tuple[Report, tuple[str, ...]]:
    """Marks as known the faults that are allowed and not larger than their ceiling.

    Returns the report and a line for each allowance whose platform ran and that no finding needs, and for each that a
    finding exceeds. Raises `MindgapError` for a text that is no allowance.
    """
    given = [parse_allowance(each, "allow") if isinstance(each, str) else each for each in allowed]
    if not given:
        return report, ()
    rows: list[Row] = []
    used: set[Allowance] = set()
    notes: dict[str, None] = {}
    for row in report.rows:
        marks: list[bool] = []
        for fault in row.independent_faults:
            named = [each for each in given if each.names(row, fault)]
            used.update(named)
            inside = [each for each in named if each.within(row)]
            marks.append(fault.known or bool(inside))
            if named and not inside:
                error = row.metrics.get("relative_error")
                size = "of unknown size" if error is None else f"with a relative error of {error:.3g}"
                notes[f"above what is allowed ({named[0]}): {row.model} on {row.platform}, {size}"] = None
        rows.append(_accepted(row, marks) if marks else row)
    ran = [row.platform for row in report.rows if not row.unknown]
    for each in given:
        if each not in used and any(fnmatchcase(platform, each.platform) for platform in ran):
            notes[f"allowed, and not found: {each}"] = None
    return replace(report, rows=tuple(rows)), tuple(notes)


def _accepted(row: Row, known: Sequence[bool]) -> Row:
    """The row with what is known. What is accepted here needs no advice; a ledger's work-around stays."""
    marked = row.with_known(known)
    before = [fault.known for fault in row.independent_faults]
    faults = tuple(
        replace(fault, advice="") if fault.known and not was else fault
        for fault, was in zip(marked.faults, before, strict=False)
    )
    return replace(marked, faults=faults, advice="" if marked.known and not row.known else marked.advice)


def all_allowed(lines: Sequence[str], folder: Path) -> tuple[Allowance, ...]:
    """The allowances of a command and those of the project that it runs in. Raises `MindgapError`."""
    return (*(parse_allowance(line) for line in lines), *project_allowances(folder))
