"""Compares the platforms of one environment with the same platforms of another: what an upgrade changes."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from platform import python_version
from typing import TYPE_CHECKING, Any, Final, Literal

from mindgap.findings.known import Baseline, Known, MarkedReport, known_as, mark_known
from mindgap.graph import Graph, MindgapError, TensorStore, decode, default_tensor_store, encode, stored_keys
from mindgap.platforms.environments import EnvironmentProblem, find
from mindgap.platforms.listing import platform_info
from mindgap.platforms.name import ENVIRONMENT, PlatformName, parse
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import canonical
from mindgap.results.rows import Report, Row
from mindgap.results.settings import RunSettings
from mindgap.workflows.diff.api import diff_many
from mindgap.workflows.diff.resumption import earlier_report, joined, row_names
from mindgap.workflows.diff.schema_changes import Call, SchemaChange, calls_of, schema_changes
from mindgap.workflows.diff.session import with_distinct_names
from mindgap.workflows.diff.subject import OnProgress, Subject

if TYPE_CHECKING:
    from mindgap.findings.causes.ledger import Ledger
    from mindgap.results.store import Store

#: What an upgrade does to a model on a platform.
#: - `worse`: the new version is wrong, or fails. `better`: the old one was, or did.
#: - `changed`: they differ by more than rounding, and which is right is undecided.
#: - `lost`: the new version refuses what the old one ran. `gained`: the other way round.
#: - `calm`: other bits, by no more than rounding. `same`: the same bits.
#: - `absent`: neither runs it. `unknown`: it was not run, or not judged.
Change = Literal["worse", "changed", "lost", "unknown", "better", "gained", "calm", "same", "absent"]
CHANGES: Final[tuple[Change, ...]] = (
    "worse", "changed", "lost", "unknown", "better", "gained", "calm", "same", "absent",
)  # fmt: skip
#: What a person who upgrades has to look at.
TO_LOOK_AT: Final[frozenset[Change]] = frozenset(("worse", "changed", "lost"))


@dataclass(frozen=True)
class PlatformUpgrade:
    """One platform before and after. `versions`: of each package that differs, both. `report`: of `after` against
    `before`."""

    before: PlatformName
    after: PlatformName
    versions: Mapping[str, tuple[str, str]]
    report: Report

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The change of each row of the report."""
        ran = {model.name: model.reference_status in ("ok", "nondeterministic") for model in self.report.models}
        return tuple(change_of(row, before_ran=ran.get(row.model, False)) for row in self.report.rows)

    @property
    def totals(self) -> dict[Change, int]:
        """How many rows have each change, those that occur."""
        counts = Counter(self.changes)
        return {change: counts[change] for change in CHANGES if counts[change]}

    def as_json(self) -> dict[str, Any]:
        """JSON, with the report's rows."""
        report: dict[str, Any] = json.loads(self.report.to_json())
        rows = [{**row, "change": change} for row, change in zip(report["rows"], self.changes, strict=True)]
        return {
            "before": self.before, "after": self.after, "versions": self.versions, "changes": self.totals,
            "refused": report["refused"], "rows": rows,
        }  # fmt: skip


def change_of(row: Row, *, before_ran: bool) -> Change:
    """The change of a row, the new version against the old one; of several faults the worst.

    `before_ran`: the old one gave outputs.
    """
    if row.broken or row.unknown:
        return "unknown"
    if row.status == "unsupported":
        return "lost" if before_ran else "absent"
    if row.verdict is None:
        return "gained" if row.ran else "absent"
    if row.verdict == "identical":
        return "same"
    if not row.finding:
        return "calm"
    by_blame: Mapping[str, Change] = {"platform": "worse", "reference": "better"}
    changes: list[Change] = [by_blame.get(fault.blame or "", "changed") for fault in row.independent_faults]
    return min(changes, key=CHANGES.index)


def together(found: Sequence[PlatformUpgrade]) -> Report:
    """One report of all platforms, for what looks at its rows only."""
    models = {model.name: model for each in found for model in each.report.models}
    rows = (row for each in found for row in each.report.rows)
    return dataclasses.replace(found[0].report, models=tuple(models.values()), rows=tuple(rows))


def mark_known_changes(
    found: Sequence[PlatformUpgrade], known: Baseline | Ledger, *, accept: bool = False
) -> tuple[tuple[PlatformUpgrade, ...], MarkedReport]:
    """Marks what a file knows, in all platforms at once: what one lacks another may have. Arguments as `mark_known`.

    The file is used for what is to be looked at only: a finding of the old version must not hide one of the new
    version. A baseline knows what is lost by its operator; a ledger does not.
    """
    changes = {
        (row.model, row.platform): change
        for each in found
        for row, change in zip(each.report.rows, each.changes, strict=True)
    }

    def keys(row: Row) -> tuple[Known, ...]:
        change = changes[row.model, row.platform]
        if change == "lost":
            return (Known(row.model, row.platform, "lost", row.culprit.op if row.culprit else ""),)
        return known_as(row) if change in TO_LOOK_AT else ()

    marked = mark_known(known, together(found), accept=accept, keys=keys)
    rows = iter(marked.report.rows)
    reports = (dataclasses.replace(each.report, rows=tuple(next(rows) for _ in each.report.rows)) for each in found)
    return tuple(dataclasses.replace(each, report=report) for each, report in zip(found, reports, strict=True)), marked


def in_environment(platform: str, environment: str | None) -> PlatformName:
    """The platform's name in an environment, None for mindgap's own. Raises `PlatformError`."""
    name = parse(platform)
    if name.is_import_path:
        raise PlatformError(f"platform {platform!r}: an upgrade takes platforms that `mindgap platforms` lists")
    if name.host:
        raise PlatformError(f"platform {platform!r} names a host: an upgrade compares environments of this machine")
    if name.environment:
        raise PlatformError(f"platform {platform!r} names an environment: --from and --to do that")
    return canonical(name if environment is None else name.with_options(**{ENVIRONMENT: environment}))


def version_changes(before: PlatformName, after: PlatformName) -> dict[str, tuple[str, str]]:
    """Of each package that the two platforms have in different versions, both; `python` among them.

    Raises `PlatformError` where one is not available, or where all versions are the same: the comparison would be of
    one platform with itself.
    """
    versions: list[Mapping[str, str]] = []
    for name in (before, after):
        info = platform_info(name)
        if not info.available:
            raise PlatformError(f"platform {name} is not available: {info.reason}")
        where = name.environment
        python = find(where).facts().python if where else python_version()
        versions.append({**info.versions, "python": python})
    names = sorted(versions[0].keys() | versions[1].keys())
    pairs = {name: (versions[0].get(name, "none"), versions[1].get(name, "none")) for name in names}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if not differing:
        same = ", ".join(f"{name} {pair[0]}" for name, pair in pairs.items())
        raise PlatformError(f"{before} and {after} have the same versions ({same}): it would be compared with itself")
    return differing


@dataclass(frozen=True)
class Upgrade:
    """What another environment changes. `schemas`: of the operators that the graphs have, those with another schema
    there. `graph`: the graph of a model, by its name in the reports; raises `MindgapError` for one that was refused."""

    platforms: tuple[PlatformUpgrade, ...]
    schemas: tuple[SchemaChange, ...]
    graph: Callable[[str], Graph]


def upgrade(
    subjects: Iterable[Subject],
    platforms: Sequence[str],
    before: str | None,
    after: str | None,
    *,
    settings: RunSettings,
    progress: OnProgress | None = None,
    tensors: TensorStore | None = None,
    jobs: int | None = None,
    store: Store | None = None,
    resume: bool = False,
) -> Upgrade:
    """Compares every subject on each platform of the environment `after` with the same platform of `before`.

    None: mindgap's own environment. `settings.budget_s` is for all platforms together. Raises `MindgapError` where the
    environments are one, a platform is unknown or not available in one of them, or nothing differs in their versions.
    `resume`: models of which the store has a row of these versions are not run again, nor captured again.
    """
    if resume and store is None:
        raise MindgapError("a run is resumed from a store: name it with --store DIR")
    if before == after:
        raise MindgapError("an upgrade is from one environment to another: name them with --from and --to")
    requested = list(dict.fromkeys(platforms))
    pairs = [(in_environment(each, before), in_environment(each, after)) for each in requested]
    versions = [version_changes(*pair) for pair in pairs]
    graphs = {each.name: _CapturedOnce(each) for each in with_distinct_names(list(subjects))}
    once = [_with_file(each, [new for _, new in pairs]) for each in graphs.values()]
    earlier: dict[str, Report | None] = {}
    if resume and store is not None:
        stored = tensors or default_tensor_store()
        for old, new in pairs:
            known = earlier[new] = earlier_report(store, old, new)
            for model in () if known is None else known.models:
                if model.name in graphs:
                    graphs[model.name].kept(partial(_stored_graph, store, model.digest, stored))
    until = None if settings.budget_s is None else time.monotonic() + settings.budget_s
    upgrades: list[PlatformUpgrade] = []
    for (old, new), changed in zip(pairs, versions, strict=True):
        left = None if until is None else max(until - time.monotonic(), 0.1)
        own = dataclasses.replace(settings, reference=old, budget_s=left)
        report = earlier.get(new)
        rest = once if report is None else [each for each in once if each.name not in row_names(report)]
        if rest or report is None:
            report = diff_many(rest, [new], settings=own, progress=progress, tensors=tensors, jobs=jobs, store=store)
        names = [each.name for each in once]
        upgrades.append(PlatformUpgrade(old, new, changed, joined(earlier.get(new), report, names)))
    schemas: tuple[SchemaChange, ...] = ()
    if any("torch" in each for each in versions):
        calls = {name: each.calls_made() for name, each in graphs.items()}
        try:
            schemas = schema_changes(calls, before, after)
        except EnvironmentProblem as error:
            warnings.warn(f"schemas of operators were not compared: {error}", stacklevel=2)
    return Upgrade(tuple(upgrades), schemas, lambda name: graphs[name].graph())


def _with_file(once: _CapturedOnce, platforms: Sequence[PlatformName]) -> Subject:
    """The subject with the graph that is made once. Of a model file the file runs in both environments too, of a
    program its graph alone."""
    program = once.subject.program
    is_file = program is not None and any(program.reads(each) for each in platforms)
    return dataclasses.replace(once.subject, graph=once.graph, program=program if is_file else None)


class _CapturedOnce:
    """A subject whose graph is made once, for several comparisons. Its bytes are held, not the graph. Thread-safe."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._kept: Callable[[], Graph] | None = None
        self._calls: Mapping[str, frozenset[Call]] = {}
        self._lock = threading.Lock()
        self._made: bytes | MindgapError | None = None

    def kept(self, graph: Callable[[], Graph]) -> None:
        """Where the graph of an earlier run is. `graph` raises `MindgapError` where that cannot be run any more."""
        self._kept = self._kept or graph

    def calls_made(self) -> Mapping[str, frozenset[Call]]:
        """The ways in which the graph calls each of its operators; none of a graph that was refused."""
        if self._made is None:
            with suppress(MindgapError):
                self.graph()
        return self._calls

    def graph(self) -> Graph:
        """The graph. Raises what the subject raised."""
        with self._lock:
            if isinstance(self._made, bytes):
                return decode(self._made)
            if self._made is not None:
                raise self._made
            made = None if self._kept is None else _tried(self._kept)
            if not isinstance(made, Graph):
                made = _tried(self.subject.graph)
            if isinstance(made, MindgapError):
                self._made = made
                raise made
            self._made, self._calls = encode(made), calls_of(made)
            return made


def _stored_graph(store: Store, digest: str, tensors: TensorStore) -> Graph:
    """A graph of a store. Raises `MindgapError` where the store does not keep it, or its weights are gone."""
    graph = store.get_graph(digest)
    if any(key not in tensors for key in stored_keys(graph)):
        raise MindgapError(f"weights of graph {digest} are no longer in {tensors.path}")
    return graph


def _tried(graph: Callable[[], Graph]) -> Graph | MindgapError:
    try:
        return graph()
    except MindgapError as error:
        return error
