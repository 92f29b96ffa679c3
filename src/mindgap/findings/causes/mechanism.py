"""Finds out that two causes have one mechanism: one translation rule, one inner operator, or a swap that shows it.

Each answer comes with one sentence that tells what was read or run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.findings.causes.cause import Damage
from mindgap.findings.causes.clusters import SameMechanism
from mindgap.findings.causes.key import cause_key_of_summary, operators_at_fault
from mindgap.findings.causes.packets import function_of
from mindgap.findings.causes.signatures import message_without_operators
from mindgap.findings.causes.swapping import swapped
from mindgap.findings.causes.translation_rules import TRANSLATES, rule_of
from mindgap.findings.reduction.files import Summary
from mindgap.graph import Graph
from mindgap.graph.operators.registry import traits
from mindgap.platforms.name import PlatformName

#: NaN that is handled wrongly and wrong values often come of one formula.
_VALUES: Final = frozenset({"values", "special values"})
#: A pair is swapped both ways at most, on the failing and on the passing graph.
MOST_PAIRS: Final = 40


@dataclass(frozen=True, slots=True)
class ReducedCase:
    """A reduced finding with its graphs. `passing`: the nearest graph that is right; None where there is none.

    `parts`: functions that its operators run as, views left out (`fft_ifftshift` runs as `roll`); empty where that is
    not known.
    """

    summary: Summary
    graph: Graph | None = None
    passing: Graph | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownDamage:
    """What a run of a graph shows. `damage`: None where the result is right. `message`: of a failure."""

    damage: Damage | None
    stage: str = "unknown"
    message: str = ""


#: Runs a draft of a graph on a platform; None where it cannot be run or says nothing.
Run = Callable[[PlatformName, Graph], ShownDamage | None]


def pairs_to_compare(cases: Sequence[ReducedCase], most: int = MOST_PAIRS) -> list[tuple[ReducedCase, ReducedCase]]:
    """Pairs of findings that may have one mechanism, the likeliest first, at most `most`.

    They are of one place, stage and damage, but of two causes; of failures the messages are alike.
    """
    found = [
        (first, second)
        for index, first in enumerate(cases)
        for second in cases[index + 1 :]
        if _comparable(first, second)
    ]
    return sorted(found, key=_likelihood)[:most]


def same_mechanism(first: ReducedCase, second: ReducedCase, run: Run | None = None) -> SameMechanism | None:
    """Evidence that two findings of `pairs_to_compare` have one mechanism, or None.

    Tried in this order: one rule translates both operators; both run as one inner operator; in the reduced graphs the
    operators can be swapped, and damage and stage stay the same. `run` None: nothing is run.
    """
    text = _one_rule(first, second) or _one_part(first, second)
    if not text and run is not None:
        text = _swap(first, second, run) or _swap(second, first, run)
    return SameMechanism(first.summary.script, second.summary.script, text) if text else None


def _comparable(first: ReducedCase, second: ReducedCase) -> bool:
    one, other = cause_key_of_summary(first.summary), cause_key_of_summary(second.summary)
    if one == other or one.where != other.where or first.summary.stage != second.summary.stage:
        return False
    if one.damage != other.damage and not {one.damage, other.damage} <= _VALUES:
        return False
    if one.damage == "failure":
        return _message(first.summary) == _message(second.summary)
    if one.damage == "shape" and one.signature != other.signature:
        return False
    # A real input of what runs as a complex operator is cast first.
    return one.dtypes == other.dtypes or (len(first.parts) == 1 and first.parts == second.parts)


def _likelihood(pair: tuple[ReducedCase, ReducedCase]) -> tuple[object, ...]:
    """Orders pairs: with a shared part first, then of one family, then by name."""
    first, second = pair
    parts = bool(set(first.parts) & set(second.parts))
    return not parts, _families(first.summary) != _families(second.summary), first.summary.script, second.summary.script


def _families(summary: Summary) -> set[str]:
    return {traits(op).family for op in operators_at_fault(summary)}


def _message(summary: Summary) -> str:
    return message_without_operators(summary.signature, [function_of(op) for op in summary.operators])


def _one_rule(first: ReducedCase, second: ReducedCase) -> str:
    """Of faults of an exporter or a front end: that one function translates both operators."""
    one, other = _operator(first), _operator(second)
    if not one or not other or first.summary.stage not in TRANSLATES or second.summary.stage not in TRANSLATES:
        return ""
    rule, same = rule_of(first.summary.platform, one), rule_of(second.summary.platform, other)
    if rule is None or same is None or rule.code != same.code:
        return ""
    return f"{rule.name} in {rule.file} translates {_both(one, other)}."


def _one_part(first: ReducedCase, second: ReducedCase) -> str:
    """That both findings run as the same one operator."""
    if len(first.parts) != 1 or first.parts != second.parts:
        return ""
    one, other = (", ".join(sorted(map(function_of, each.summary.operators))) for each in (first, second))
    return f"Eager PyTorch runs both {one} and {other} as {first.parts[0]}."


def _swap(first: ReducedCase, second: ReducedCase, run: Run) -> str:
    """That the second operator shows the same in the first one's graph, and is right in its passing graph."""
    old, new = _operator(first), _operator(second)
    alike = _families(first.summary) == _families(second.summary) and first.summary.stage != "unknown"
    if not alike or not old or not new or first.graph is None:
        return ""
    draft = swapped(first.graph, old, new)
    shown = None if draft is None else run(first.summary.platform, draft)
    damage = cause_key_of_summary(first.summary).damage
    if shown is None or shown.damage != damage or shown.stage != first.summary.stage:
        return ""
    if damage == "failure" and _message(first.summary) != message_without_operators(shown.message, [function_of(new)]):
        return ""
    text = f"{new} in place of {old} in {first.summary.script} shows the same, at the same stage"
    passing = None if first.passing is None else swapped(first.passing, old, new)
    if passing is None:
        return f"{text}."
    calm = run(first.summary.platform, passing)
    return f"{text}; in the nearest graph that is right, it is right too." if _is_right(calm) else ""


def _is_right(shown: ShownDamage | None) -> bool:
    return shown is not None and shown.damage is None


def _operator(case: ReducedCase) -> str:
    """The one operator at fault, or ""."""
    found = tuple(dict.fromkeys(operators_at_fault(case.summary)))
    return found[0] if len(found) == 1 else ""


def _both(one: str, other: str) -> str:
    return one if one == other else f"both {one} and {other}"
