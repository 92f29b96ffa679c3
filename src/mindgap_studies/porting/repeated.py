"""Compares two porting studies of the same settings: classes of functions, and intervals of slow-downs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mindgap.graph import MindgapError
from mindgap_studies.porting.slowdown import Slowdown, steady
from mindgap_studies.results.ported_functions import FunctionCell, PortingStudy


@dataclass(frozen=True, slots=True)
class StudyDifference:
    """A function on a target that two studies do not agree on. what: `class`, `slow-down`, `samples`, or `cell` where
    one study lacks it."""

    framework: str
    function: str
    target: str
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class StudyAgreement:
    """What two studies have in common.

    cells: functions on targets that either has, of the frameworks that both have.
    slowdowns: those whose intervals were compared. undetermined: those of which an interval spans more than three
    times, or is of another sample, those that one study alone could measure, and those of a single process.
    """

    cells: int
    slowdowns: int
    undetermined: int
    differences: tuple[StudyDifference, ...]

    @property
    def agreeing_slowdowns(self) -> int:
        """How many of `slowdowns` have intervals with a value in common."""
        return self.slowdowns - sum(each.what == "slow-down" for each in self.differences)

    @property
    def agreeing_cells(self) -> int:
        """How many of `cells` both studies have, with the same class and samples."""
        return self.cells - sum(each.what != "slow-down" for each in self.differences)


def compare_studies(before: PortingStudy, after: PortingStudy) -> StudyAgreement:
    """Compares the cells of the frameworks that both studies have.

    A cell that one study lacks is a difference. Slow-downs agree where their intervals have a value in common. Raises
    `MindgapError` for studies of other settings, machines or versions, and where they have no cell in common.
    """
    frameworks = [name for name in before.draws if name in after.draws]
    _check_comparable(before, after, frameworks)
    keys = [key for key in {**before.cells, **after.cells} if key[0] in frameworks]
    if not any(key in before.cells and key in after.cells for key in keys):
        raise MindgapError("the two studies have no function on a target in common")
    slowdowns = undetermined = 0
    study_differences: list[StudyDifference] = []
    for key in keys:
        one, other = before.cells.get(key), after.cells.get(key)
        if one is None or other is None:
            words = ["missing" if cell is None else _class(cell) for cell in (one, other)]
            study_differences.append(StudyDifference(*key, "cell", *words))
            continue
        if _class(one) != _class(other):
            study_differences.append(StudyDifference(*key, "class", _class(one), _class(other)))
        elif [each.sample for each in one.samples] != [each.sample for each in other.samples]:
            texts = ["; ".join(each.sample for each in cell.samples) for cell in (one, other)]
            study_differences.append(StudyDifference(*key, "samples", *texts))
        if one.latency is None and other.latency is None:
            continue
        ratios = _ratios(one, other)
        if ratios is None:
            undetermined += 1
            continue
        slowdowns += 1
        if not ratios[0].agrees(ratios[1]):
            texts = [f"{each.value:.3g} ({each.low:.3g} to {each.high:.3g})" for each in ratios]
            study_differences.append(StudyDifference(*key, "slow-down", *texts))
    return StudyAgreement(len(keys), slowdowns, undetermined, tuple(study_differences))


def _check_comparable(before: PortingStudy, after: PortingStudy, frameworks: Sequence[str]) -> None:
    """Raises `MindgapError` for studies of other settings, machines or versions."""
    names = sorted(k for k in {*before.settings, *after.settings} if before.settings.get(k) != after.settings.get(k))
    if before.machine != after.machine:
        names.append("machine")
    names += [f"versions of {n}" for n in frameworks if _other(before.draws[n].versions, after.draws[n].versions)]
    if names:
        raise MindgapError(f"the two studies cannot be compared: they have another {', '.join(names)}")


def _other(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a package has another version. One that a single study has is of a target that the other left out."""
    return any(before[package] != after[package] for package in before if package in after)


def _ratios(one: FunctionCell, other: FunctionCell) -> tuple[Slowdown, Slowdown] | None:
    """The slow-downs of a function in two studies; None where they are not of one sample, an interval is wide, or one
    study has a single process, which says nothing of what differs between processes."""
    if one.latency is None or other.latency is None or one.latency.sample != other.latency.sample:
        return None
    if min(len(one.latency.source), len(other.latency.source)) < 2:
        return None
    left, right = steady(one.latency), steady(other.latency)
    return None if left.wide or right.wide else (left, right)


def _class(cell: FunctionCell) -> str:
    loss = cell.main_loss
    return f"{cell.word}: {loss.reason}" if loss is not None else cell.word
