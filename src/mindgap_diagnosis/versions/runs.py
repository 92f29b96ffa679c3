"""Runs one model on releases of a package, each in an environment, until the first that shows the fault is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from mindgap.graph import MindgapError
from mindgap.platforms.environments import EnvironmentProblem
from mindgap.platforms.name import ENVIRONMENT, PlatformName
from mindgap.platforms.protocol import PlatformError
from mindgap.results.settings import RunSettings
from mindgap.source_worker.client import ProgramRefused
from mindgap.workflows.diff.session import Session
from mindgap.workflows.diff.subject import OnProgress, Subject
from mindgap_diagnosis.versions.bisection import State, VersionVerdict, bisected, symptom, verdict_of
from mindgap_diagnosis.versions.releases import VersionedPackage


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
    """Runs a model on releases. `say`: called with what is being installed, `tried`: with each verdict."""

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
            own = self.package.is_own(version)
            name = "" if own else self.package.made(version, self.say).name
            platform = self.platform.with_options(**{ENVIRONMENT: name}) if name else self.platform
            report = self.session.diff_many(self.subjects, [platform], settings=self.settings, progress=self.progress)
        except (EnvironmentProblem, PlatformError) as error:
            return VersionVerdict(version, skipped=" ".join(str(error).split()))
        if not report.rows:
            raise MindgapError("; ".join(f"{each.source}: {each.reason}" for each in report.refused))
        return verdict_of(version, name, report.rows[0])


def bisect_versions(runs: VersionRuns, versions: tuple[str, ...], good: str, tried: OnTried) -> Bisection:
    """Finds the first release that is like the bad end of `versions`. `good`: which end is right. `tried`: called with
    each verdict as it is known.

    Raises `MindgapError` where an end cannot be run, or both ends are alike.
    """
    bad = versions[-1] if good == versions[0] else versions[0]
    ends: list[VersionVerdict] = []
    for name, version in (("--good", good), ("--bad", bad)):
        ends.append(runs.verdict(version))
        if ends[-1].skipped:
            raise MindgapError(f"{name} {version} cannot be run: {ends[-1].skipped}")
    state = symptom(*ends)
    if state is None:
        raise MindgapError(_alike(*ends, swapped=symptom(*reversed(ends)) is not None))
    verdicts = {each.version: each for each in ends}

    def state_of(version: str) -> State:
        each = verdicts.get(version) or runs.verdict(version)
        verdicts[version] = replace(each, state="skipped" if each.skipped else state(each))
        tried(verdicts[version])
        return verdicts[version].state

    for version in (good, bad):
        state_of(version)
    mended = good == versions[-1]
    low, high = bisected(versions, "bad" if mended else "good", state_of)
    ordered = tuple(verdicts[each] for each in versions if each in verdicts)
    model = runs.subjects[0].group or runs.subjects[0].name
    first_bad, last_good = (low, high) if mended else (high, low)
    return Bisection(model, runs.platform, runs.package.name, first_bad, last_good, mended, ordered)


def _alike(good: VersionVerdict, bad: VersionVerdict, *, swapped: bool) -> str:
    """Why two releases are no ends of a bisection."""
    texts = [f"{each.version} is {each.word}{f' ({each.remark})' if each.remark else ''}" for each in (good, bad)]
    if swapped:
        return f"the good release has the fault: {texts[0]}; {texts[1]}: exchange --good and --bad"
    return f"nothing tells the releases apart: {texts[0]}; {texts[1]}: name two that differ"


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


#: Called with the verdict of each release.
OnTried = Callable[[VersionVerdict], None]
