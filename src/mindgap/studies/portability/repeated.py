"""Compares two portability studies of the same settings: classes of functions, and intervals of slow-downs."""

from __future__ import annotations

from dataclasses import dataclass

from mindgap.graph import MindgapError
from mindgap.results.ported_functions import FunctionCell, PortingStudy
from mindgap.studies.portability.slowdown import steady


@dataclass(frozen=True, slots=True)
class StudyDifference:
    """A function on a target that two studies do not agree on. what: `class` or `slow-down`."""

    framework: str
    function: str
    target: str
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class StudyAgreement:
    """What two studies have in common: compared cells and slow-downs, and the differences."""

    cells: int
    slowdowns: int
    differences: tuple[StudyDifference, ...]


def compare_studies(before: PortingStudy, after: PortingStudy) -> StudyAgreement:
    """Compares the cells that both studies have. Slow-downs agree where their intervals have a value in common.

    Raises `MindgapError` where they have no cell in common.
    """
    keys = [key for key in before.cells if key in after.cells]
    if not keys:
        raise MindgapError("the two studies have no function on a target in common")
    slowdowns = 0
    found: list[StudyDifference] = []
    for key in keys:
        one, other = before.cells[key], after.cells[key]
        if _class(one) != _class(other):
            found.append(StudyDifference(*key, "class", _class(one), _class(other)))
        if one.latency is not None and other.latency is not None and one.latency.sample == other.latency.sample:
            slowdowns += 1
            left, right = steady(one.latency), steady(other.latency)
            if not left.agrees(right):
                texts = [f"{each.value:.3g} ({each.low:.3g} to {each.high:.3g})" for each in (left, right)]
                found.append(StudyDifference(*key, "slow-down", *texts))
    return StudyAgreement(len(keys), slowdowns, tuple(found))


def _class(cell: FunctionCell) -> str:
    """The class of a function, with the reason of its loss."""
    loss = cell.main_loss
    return f"{cell.word}: {loss.reason}" if loss is not None else cell.word
