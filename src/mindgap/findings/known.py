"""Marks the findings of a report that a file knows, so that only new findings fail a build.

The file is a baseline (JSON) or a ledger of known issues (TOML, `mindgap.findings.causes.ledger`). A finding is one
fault of a row, so that a new fault beside a known one is new. A baseline knows it by model, platform, verdict, culprit
operator, place and size: the same operator that is wrong at another place, or by five times as much, is new. A baseline
is sorted JSON with one finding per line, readable in a diff. A ledger knows causes, which its entries describe.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError

from mindgap.graph import MindgapError
from mindgap.graph.compare.culprit import DtypePolicy
from mindgap.platforms.environments import EnvironmentProblem
from mindgap.platforms.listing import package_versions
from mindgap.platforms.name import PlatformName, recorded
from mindgap.results.rows import Report, Row

if TYPE_CHECKING:
    from mindgap.findings.causes import Cause
    from mindgap.findings.causes.ledger import Ledger, Review

_VERSION: Final = 2


#: A finding whose size is this many times the known one is new.
GROWN: Final = 5.0


@dataclass(frozen=True, slots=True)
class Known:
    """One known finding.

    verdict: `lost` of what an upgrade refuses.
    culprit: an operator or a dtype policy; empty if none was found.
    place: the module and the line of the culprit (`layer1.0 (model.py:42)`).
    nodes: of the graph, all calls of the operator that are wrong; none of a dtype policy.
    graph: the digest of the graph that the nodes belong to.
    size: see `size_of`; None of a fault beside others, and where there is none.
    What is not there is not compared.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    model: str
    platform: PlatformName
    verdict: str
    culprit: str = ""
    place: str = ""
    nodes: tuple[int, ...] = ()
    graph: str = ""
    size: float | None = None

    @property
    def order(self) -> tuple[str, str, str, str, str, tuple[int, ...]]:
        """The order of a file."""
        return self.model, self.platform, self.verdict, self.culprit, self.place, self.nodes

    @property
    def name(self) -> tuple[str, str, str, str]:
        """What a fault has in common with one of the same operator elsewhere."""
        return self.model, self.platform, self.verdict, self.culprit

    def holds(self, finding: Known) -> bool:
        """Whether what was found is this one: the same operator at no other place, and not much larger."""
        if self.name != finding.name or not self._is_place_of(finding):
            return False
        return self.size is None or finding.size is None or finding.size < GROWN * self.size

    def _is_place_of(self, finding: Known) -> bool:
        """In the same graph nodes tell places apart.

        In another, nodes and lines may have moved: the module or the nodes are the same, and no more nodes are wrong.
        """
        if not self.nodes or not finding.nodes:
            return not self.place or _module(self.place) == _module(finding.place)
        within = set(finding.nodes) <= set(self.nodes)
        if self.graph == finding.graph:
            return within
        return (within or _module(self.place) == _module(finding.place)) and len(finding.nodes) <= len(self.nodes)

    def as_json(self) -> dict[str, Any]:
        """The fields that are known."""
        data = {"model": self.model, "platform": self.platform, "verdict": self.verdict, "culprit": self.culprit}
        optional = {"place": self.place, "nodes": self.nodes, "graph": self.graph, "size": self.size}
        return data | {name: value for name, value in optional.items() if value not in ("", (), None)}


_FINDINGS: Final = TypeAdapter(tuple[Known, ...])


def _module(place: str) -> str:
    """The module of a place; of one without a module, its line."""
    return place.partition(" (")[0]


def size_of(row: Row) -> float | None:
    """How large the difference of a row is: its relative error; of `exceptional`, the number of elements where one side
    alone has NaN or an infinity. None where neither was measured."""
    if row.verdict == "exceptional":
        return float((row.metrics.get("nan_mismatch") or 0) + (row.metrics.get("inf_mismatch") or 0)) or None
    size = row.metrics.get("relative_error")
    return None if size is None else float(f"{size:.3g}")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A set of known findings."""

    known: frozenset[Known] = frozenset()

    @staticmethod
    def load(path: Path | str) -> Baseline:
        """Reads a baseline file. Raises `MindgapError` if it is missing or damaged."""
        path = Path(path)
        try:
            data: Any = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise MindgapError(f"no baseline {path}: make it with --update-baseline") from None
        except (OSError, ValueError) as error:
            raise MindgapError(f"baseline {path} cannot be read: {error}") from None
        if not isinstance(data, dict) or data.get("mindgap_baseline") != _VERSION:  # pyright: ignore[reportUnknownMemberType] # any JSON
            raise MindgapError(f"{path} is not a baseline of version {_VERSION}: make it again with --update-baseline")
        try:
            findings = _FINDINGS.validate_python(data.get("findings"))  # pyright: ignore[reportUnknownMemberType] # any JSON
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(["findings", *map(str, first["loc"])])
            raise MindgapError(f"baseline {path}: {where}: {first['msg']}") from None
        return Baseline(frozenset(replace(each, platform=recorded(each.platform)) for each in findings))

    def text(self) -> str:
        """Returns the content of the file: equal baselines give equal texts."""
        ordered = sorted(self.known, key=lambda known: known.order)
        lines = [json.dumps(known.as_json(), ensure_ascii=False) for known in ordered]
        body = ",\n  ".join(lines)
        findings = f"[\n  {body}\n ]" if lines else "[]"
        return f'{{\n "mindgap_baseline": {_VERSION},\n "findings": {findings}\n}}\n'

    def mark(self, report: Report, keys: Keys | None = None) -> Report:
        """Sets `known` on the faults that this baseline contains, and on the rows of which it contains every fault.

        `keys`: those of a row, by default its faults.
        """
        by_name: dict[tuple[str, ...], list[Known]] = {}
        for known in self.known:
            by_name.setdefault(known.name, []).append(known)

        def holds(finding: Known) -> bool:
            return any(known.holds(finding) for known in by_name.get(finding.name, ()))

        rows = (_marked(row, [*map(holds, findings)]) for row, findings in _found(report, keys))
        return replace(report, rows=tuple(rows))

    def updated(self, report: Report, keys: Keys | None = None) -> Baseline:
        """Returns the baseline after this report. Findings of pairs of model and platform that did not run stay."""
        ran = _ran(report)
        kept = {known for known in self.known if (known.model, known.platform) not in ran}
        return Baseline(frozenset(kept | {key for _, findings in _found(report, keys) for key in findings}))

    def gone(self, report: Report, keys: Keys | None = None) -> tuple[Known, ...]:
        """Returns known findings whose model and platform ran, but whose operator is not wrong in this way any more."""
        ran = _ran(report)
        names = {key.name for _, keys_ in _found(report, keys) for key in keys_}
        gone = (k for k in self.known if k.name not in names and (k.model, k.platform) in ran)
        return tuple(sorted(gone, key=lambda known: known.order))


#: What a baseline knows a row by: a key for each fault. A row without keys is asked of no file.
Keys = Callable[[Row], Sequence[Known]]


def _found(report: Report, keys: Keys | None) -> Iterator[tuple[Row, list[Known]]]:
    """Each row with its keys, which have the digest of their graph."""
    graphs = {model.name: model.digest for model in report.models}
    for row in report.rows:
        row_keys = (keys or known_as)(row)
        yield row, [replace(key, graph=graphs.get(row.model, "") if key.nodes else "") for key in row_keys]


def _marked(row: Row, known: Sequence[bool]) -> Row:
    """The row with what is known of it. One without faults is known as a whole."""
    if not known:
        return row
    if row.finding:
        return row.with_known(known)
    return replace(row, known=all(known))


def _ran(report: Report) -> set[tuple[str, str]]:
    """The pairs of model and platform of which the report knows something."""
    return {(row.model, row.platform) for row in report.rows if not row.unknown}


def known_as(row: Row) -> tuple[Known, ...]:
    """Returns the baseline's key for each fault of a row; none for a calm row."""
    faults = row.independent_faults
    size = size_of(row) if len(faults) == 1 else None
    return tuple(
        Known(
            row.model, row.platform, fault.verdict, fault.culprit.op if fault.culprit else "",
            fault.culprit.label if fault.culprit else "",
            () if isinstance(fault.culprit, DtypePolicy) else fault.nodes, "", size,
        )
        for fault in faults
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class MarkedReport:
    """What a file of known findings says of a report.

    `report`: with `known` set. `notes`: a line for each thing that a person must look at: what is gone, back, expired.
    `text`: the file's content after the report: what is new is in it, and what is gone is not, or has the day.
    """

    report: Report
    notes: tuple[str, ...]
    text: str


def load_known(path: Path, *, create: bool = False) -> Baseline | Ledger:
    """Reads a file of known findings: a ledger where its name ends in `.toml`, else a baseline.

    `create`: a file that is missing is empty. Raises `MindgapError` for one that is missing or damaged.
    """
    if path.suffix == ".toml":
        return load_ledger(path, create=create)
    return Baseline() if create and not path.exists() else Baseline.load(path)


def load_ledger(path: Path, *, create: bool = False) -> Ledger:
    """Reads a ledger. `create`: one that is missing is empty. Raises `MindgapError` for a bad file."""
    from mindgap.findings.causes.ledger import Ledger

    return Ledger() if create and not path.exists() else Ledger.load(path)


def mark_known(
    known: Baseline | Ledger, report: Report, *, accept: bool = False, keys: Keys | None = None
) -> MarkedReport:
    """Marks what a file knows of a report. `accept`: what is new is known, since the file gets it.

    `keys`: what a baseline knows a row by, by default its faults. Rows without keys stay as they are.
    """
    keys = keys or known_as
    if not isinstance(known, Baseline):
        return _by_ledger(known, report, accept, keys)
    notes = tuple(
        f"no longer found, and still in the baseline: {gone.model} on {gone.platform}: {gone.verdict}"
        for gone in known.gone(report, keys)
    )
    updated = known.updated(report, keys)
    return MarkedReport((updated if accept else known).mark(report, keys), notes, updated.text())


def review_causes(ledger: Ledger, causes: Sequence[Cause], platforms: Iterable[PlatformName]) -> tuple[Review, str]:
    """What a ledger says of causes today, and its text after that, with what is new and gone.

    `platforms`: those of which all causes are there.
    """
    review = ledger.review(causes, platforms, partial(_versions, sorted(ledger.packages)), date.today())
    return review, ledger.updated(review, date.today())


def _versions(packages: Sequence[str], platform: PlatformName) -> Mapping[str, str]:
    """The versions where a platform runs; none for one of an environment that is not on this machine."""
    try:
        return package_versions(platform, packages) if packages else {}
    except EnvironmentProblem:
        return {}


def _by_ledger(ledger: Ledger, report: Report, accept: bool, keys: Keys) -> MarkedReport:
    from mindgap.findings.causes import causes_of_rows  # imports PyTorch

    apart = [row.by_fault if keys(row) else () for row in report.rows]
    pairs = causes_of_rows(fault for faults in apart for fault in faults)
    ran = {row.platform for row in report.rows if row.verdict is not None}
    ran -= {row.platform for row in report.rows if row.unknown}
    review, text = review_causes(ledger, [cause for cause, _ in pairs], ran)
    states = ("known", "new") if accept else ("known",)
    known = {
        id(fault) for cause, (_, faults) in zip(review.causes, pairs, strict=True) if cause.state in states
        for fault in faults
    }  # fmt: skip
    advice = {
        id(fault): ledger.workaround_of(cause)
        for cause, (_, faults) in zip(review.causes, pairs, strict=True)
        for fault in faults
    }
    rows = (
        _with_workarounds(
            _marked(row, [id(fault) in known for fault in faults if fault.finding]),
            [advice.get(id(fault), "") for fault in faults if fault.finding],
        )
        for row, faults in zip(report.rows, apart, strict=True)
    )
    return MarkedReport(replace(report, rows=tuple(rows)), tuple(review.lines), text)


def _with_workarounds(row: Row, texts: Sequence[str]) -> Row:
    """The row with a ledger's work-around as the advice of each fault that has one."""
    if not any(texts):
        return row
    faults = tuple(
        replace(fault, advice=text or fault.advice)
        for fault, text in zip(row.faults, texts if row.faults else (), strict=True)
    )
    return replace(row, faults=faults, advice=texts[0] or row.advice)
