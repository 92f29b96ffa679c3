"""Decides which releases are like the good one and which like the bad one, and bisects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from mindgap.report.finding_blocks import reason, size_text
from mindgap.results.rows import Row

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
    """The verdict of a release, from the row of the model on it."""
    if row.unknown or row.broken or row.word == "no_reference":
        return VersionVerdict(version, environment, row.word, skipped=f"{row.word}: {reason(row)}")
    relative = row.metrics.get("relative_error")
    culprit = row.culprit
    named = "" if culprit is None else " ".join(filter(None, (culprit.op, f"({culprit.label})" * bool(culprit.label))))
    return VersionVerdict(
        version, environment, row.word, frozenset(_faults(row)), named,
        size_text(row) if row.ran and row.verdict != "identical" else reason(row)[:120],
        0.0 if row.verdict == "identical" else float(relative) if relative is not None else None,
    )  # fmt: skip


def _faults(row: Row) -> list[str]:
    """The faults of a row. Those of the reference are named as such: a release that shares them is no better."""
    if not row.ran and not row.finding:
        return [f"{row.word} {row.culprit.op if row.culprit else ''}".strip()]
    sides = ["reference" if each.blame == "reference" else "" for each in row.independent_faults]
    return [
        " ".join(filter(None, (each.verdict, side, each.culprit.op if each.culprit else "")))
        for each, side in zip(row.independent_faults, sides, strict=True)
    ]


#: Decides whether a release that was judged shows what sets the bad one apart.
Symptom = Callable[[VersionVerdict], State]


def symptom(good: VersionVerdict, bad: VersionVerdict) -> Symptom | None:
    """What sets a bad release apart: faults that only one of the two has, else the size of the error; None where
    nothing does."""
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
