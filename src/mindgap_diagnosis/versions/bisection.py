"""Runs one model on releases of a package, each in an environment, until the first that shows the fault is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal

from mindgap.graph import MindgapError
from mindgap.platforms.environments import EnvironmentProblem
from mindgap.platforms.name import ENVIRONMENT, PlatformName
from mindgap.platforms.protocol import PlatformError
from mindgap.report.finding_blocks import size_text
from mindgap.report.words import reason, word_text
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings
from mindgap.source_worker.client import ProgramRefused
from mindgap.workflows.diff.session import Session
from mindgap.workflows.diff.subject import OnProgress, Subject
from mindgap_diagnosis.versions.releases import VersionedPackage

#: `skipped`: it could not be installed, run or judged.
State = Literal["good", "bad", "skipped"]
#: Results of one verdict and one culprit differ where the error of one is so many times that of the other.
_LARGER: Final = 8.0


@dataclass(frozen=True, slots=True)
class VersionVerdict:
    """What a release gives.

    word: the row's verdict or status. faults: each fault by verdict, side and operator, `wrong aten.erf.default`.
    culprit, size: of the first fault, in words. error: the relative error of the outputs; None where it was not
    measured. skipped: why nothing is known of the release; empty where something is.
    """

    version: str
    environment: str = ""
    word: str = ""
    faults: frozenset[str] = frozenset()
    culprit: str = ""
    size: str = ""
    error: float | None = None
    skipped: str = ""
    state: State = field(default="skipped", compare=False)

    @property
    def remark(self) -> str:
        return self.skipped or ", ".join(filter(None, (self.culprit, self.size)))


def verdict_of(version: str, environment: str, row: Row) -> VersionVerdict:
    if row.unknown or row.broken or row.word == "no_reference":
        return VersionVerdict(version, environment, row.word, skipped=f"{row.word}: {reason(row)}")
    relative, culprit = row.metrics.get("relative_error"), row.culprit
    named = "" if culprit is None else f"{culprit.op} ({culprit.label})".removesuffix(" ()")
    return VersionVerdict(
        version, environment, row.word, frozenset(_faults(row)), named,
        size_text(row) if row.ran and row.verdict != "identical" else reason(row)[:120],
        0.0 if row.verdict == "identical" else float(relative) if relative is not None else None,
    )  # fmt: skip


def _faults(row: Row) -> list[str]:
    """The faults of a row. Those of the reference are named as such: a release that shares them is no better."""
    if not row.ran and not row.finding:
        return [f"{row.word} {row.culprit.op if row.culprit else ''}".strip()]
    sides = [(each, " reference" * (each.blame == "reference")) for each in row.independent_faults]
    return [f"{each.verdict}{side} {each.culprit.op if each.culprit else ''}".strip() for each, side in sides]


def symptom(good: VersionVerdict, bad: VersionVerdict) -> Callable[[VersionVerdict], State] | None:
    """Returns what decides whether a release is like the bad one: faults that only one of the two has, else the size of
    the error; None where nothing sets them apart."""
    only_good, only_bad = good.faults - bad.faults, bad.faults - good.faults
    if only_bad:
        return lambda each: "bad" if each.faults & only_bad else "good"
    if any(" reference " in f"{each} " for each in only_good):
        return lambda each: "good" if each.faults & only_good else "bad"
    if only_good or good.error is None or bad.error is None or bad.error <= _LARGER * good.error:
        return None
    threshold = (max(good.error, bad.error / _LARGER**2) * bad.error) ** 0.5
    return lambda each: "skipped" if each.error is None else "bad" if each.error > threshold else "good"


def bisected(versions: Sequence[str], oldest: State, state_of: Callable[[str], State]) -> tuple[str, str]:
    """Returns two neighbours of `versions`: the last that is in the state of the oldest one, and the first that is not.

    Between the two lie skipped versions only. `state_of` is called once for each version that is tried; the oldest and
    the newest one, whose states differ, are not.
    """
    low, high = 0, len(versions) - 1
    skipped: set[int] = set()
    while inner := [at for at in range(low + 1, high) if at not in skipped]:
        middle = inner[(len(inner) - 1) // 2]
        state = state_of(versions[middle])
        if state == "skipped":
            skipped.add(middle)
        elif state == oldest:
            low = middle
        else:
            high = middle
    return versions[low], versions[high]


@dataclass(frozen=True, slots=True)
class Bisection:
    """What the releases gave. `tried`: in the order of the releases.

    first_bad, last_good: neighbours, but for releases that were skipped. mended: the good release is the newer one, and
    `first_bad` is the last that is bad, `last_good` the first that is good.
    """

    model: str
    platform: PlatformName
    package: str
    first_bad: str
    last_good: str
    mended: bool
    tried: tuple[VersionVerdict, ...]

    @property
    def unsure(self) -> tuple[str, ...]:
        """The skipped releases between the two, any of which may be the first."""
        names = [each.version for each in self.tried]
        ends = sorted((names.index(self.first_bad), names.index(self.last_good)))
        return tuple(names[ends[0] + 1 : ends[1]])

    def as_json(self) -> dict[str, Any]:
        tried = [{**asdict(each), "faults": sorted(each.faults)} for each in self.tried]
        return {**asdict(self), "unsure": self.unsure, "tried": tried}


@dataclass(frozen=True)
class VersionRuns:
    """Runs a model on releases. `say`: called with what is being installed, and with each verdict."""

    session: Session
    subjects: tuple[Subject, ...]
    platform: PlatformName
    package: VersionedPackage
    settings: RunSettings
    progress: OnProgress | None
    say: Callable[[str], None]

    def verdict(self, version: str) -> VersionVerdict:
        """Makes the environment of a release and runs the model there. Raises `MindgapError` where the source gives
        nothing to run."""
        try:
            name = "" if self.package.is_own(version) else self.package.made(version, self.say).name
            platform = self.platform.with_options(**{ENVIRONMENT: name}) if name else self.platform
            report = self.session.diff_many(self.subjects, [platform], settings=self.settings, progress=self.progress)
        except (EnvironmentProblem, PlatformError) as error:
            return VersionVerdict(version, skipped=" ".join(str(error).split()))
        if not report.rows:
            raise MindgapError("; ".join(f"{each.source}: {each.reason}" for each in report.refused))
        return verdict_of(version, name, report.rows[0])


def bisect_versions(runs: VersionRuns, versions: tuple[str, ...], mended: bool) -> Bisection:
    """Finds the first release that is like the newest of `versions`. `mended`: that one is right, and not the oldest.

    Raises `MindgapError` where an end cannot be run, or both ends are alike.
    """
    ends: list[VersionVerdict] = []
    good, bad = (versions[-1], versions[0]) if mended else (versions[0], versions[-1])
    for name, version in (("--good", good), ("--bad", bad)):
        ends.append(runs.verdict(version))
        if ends[-1].skipped:
            raise MindgapError(f"{name} {version} cannot be run: {ends[-1].skipped}")
    state = symptom(*ends)
    if state is None:
        both = "; ".join(f"{each.version} is {each.word}{f' ({each.remark})' * bool(each.remark)}" for each in ends)
        if symptom(*reversed(ends)) is not None:
            raise MindgapError(f"the good release has the fault: {both}: exchange --good and --bad")
        raise MindgapError(f"nothing tells the releases apart: {both}: name two that differ")
    verdicts = {each.version: each for each in ends}

    def state_of(version: str) -> State:
        each = verdicts.get(version) or runs.verdict(version)
        each = verdicts[version] = replace(each, state="skipped" if each.skipped else state(each))
        runs.say(f"{version}: {each.state}: {word_text(each.word)} {each.remark}")
        return each.state

    for each in ends:
        state_of(each.version)
    low, high = bisected(versions, "bad" if mended else "good", state_of)
    ordered = tuple(verdicts[each] for each in versions if each in verdicts)
    model = runs.subjects[0].group or runs.subjects[0].name
    first_bad, last_good = (low, high) if mended else (high, low)
    return Bisection(model, runs.platform, runs.package.name, first_bad, last_good, mended, ordered)


def one_program(subjects: Iterable[Subject]) -> tuple[Subject, ...]:
    """One program with its sets of arguments, captured once for all releases.

    Raises `MindgapError` for several programs, and for one that cannot be opened: no environment is made for it.
    """
    given = tuple(replace(each, graph=cache(each.graph)) for each in subjects)
    if len({each.group or each.name for each in given}) != 1 or (len(given) > 1 and not given[0].group):
        raise MindgapError(f"the source names {len(given)} models: a bisection takes one")
    for each in given:
        # A program without a graph, and a file without a translation, run by the platform's own way.
        with suppress(ProgramRefused):
            each.captured()
    return given
