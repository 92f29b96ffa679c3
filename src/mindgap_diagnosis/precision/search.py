"""Searches the fewest operators in float32: ranks them by the oracle's noise, proves by runs of the platform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from mindgap_diagnosis.precision.noise import CALLER, Damage, Edge

_NONE: Final[Damage] = (0, 0, 0.0)


def _sum(damages: Iterable[Damage]) -> Damage:
    overflow, saturate, cost = map(sum, zip(_NONE, *damages, strict=True))
    return overflow, saturate, cost


@dataclass(frozen=True)
class Ranking:
    """`order`: all operators, the one that is given back last first. `damage`: by how many of `order` stay in float32,
    from none to all, what the noise predicts."""

    order: tuple[int, ...]
    damage: tuple[Damage, ...]


def ranked(count: int, edges: Iterable[Edge], always: frozenset[int] = frozenset()) -> Ranking:
    """Gives back one operator after the other, each time the one whose values do least damage when they are rounded.

    `count`: the number of operators. `always`: those that stay in any case, and are not ranked. An edge is exact while
    all its operators stay in float32.
    """
    exact: dict[int, list[tuple[frozenset[int], Damage]]] = {i: [] for i in range(count)}
    for edge in edges:
        needed = edge.roots | frozenset({edge.reader} - {CALLER})
        for operator in needed:
            exact[operator].append((needed, edge.damage))
    kept = set(range(count)) - always
    marginal = {i: _sum(each for _, each in exact[i]) for i in kept}
    given_back: list[int] = []
    damage: list[Damage] = [_NONE]
    while kept:
        last = min(kept, key=lambda i: (marginal[i], i))
        damage.append(_sum((damage[-1], marginal[last])))
        given_back.append(last)
        kept.remove(last)
        for needed, _ in exact[last]:
            for other in needed & kept:
                exact[other] = [each for each in exact[other] if last not in each[0]]
                marginal[other] = _sum(each for _, each in exact[other])
    return Ranking(tuple(reversed(given_back)), tuple(reversed(damage)))


#: Runs of the platform for one search.
MOST_RUNS: Final = 25


@dataclass(frozen=True)
class Proved:
    """`kept`: the operators that stay, most needed first; `given_back`: by operator, the measured error when it, or it
    and others with it, does not stay. `before`, `after`: errors with none and with these. `all_wide`: with all, None
    where that was not needed. `runs`: how many. `proved`: every one of `kept` was given back, and the bound not met."""

    kept: tuple[int, ...]
    before: float
    after: float
    all_wide: float | None
    runs: int
    given_back: dict[int, float] = field(default_factory=dict[int, float])
    proved: bool = True


def search(
    ranking: Ranking, measure: Callable[[frozenset[int]], float], bound: float, most_runs: int = MOST_RUNS
) -> Proved:
    """Finds the shortest beginning of the ranking that meets the bound, then gives back what is not needed.

    `measure`: returns the measured error of the outputs when these operators stay in float32; infinite for NaN or
    infinity. Where nothing meets the bound, `kept` holds all and `after` is above it.
    """
    order, measured = ranking.order, cache(measure)
    runs = measured.cache_info

    def run(kept: Sequence[int]) -> float:
        return measured(frozenset(kept))

    before = run(())
    if before <= bound:
        return Proved((), before, before, None, runs().currsize)
    all_wide = run(order)
    if not all_wide <= bound:
        return Proved(order, before, all_wide, all_wide, runs().currsize)
    kept = order[: _shortest(ranking, run, bound, before)]
    # The least needed first, one at a time if the runs that are left suffice, else several.
    size, errors = -(-len(kept) // max(most_runs - runs().currsize, 1)), dict[int, float]()
    for first in range(len(kept), 0, -size):
        group = kept[max(first - size, 0) : first]
        rest = tuple(each for each in kept if each not in group)
        error = run(rest)
        if error <= bound:
            kept = rest
        else:
            errors.update(dict.fromkeys(group, error))
    return Proved(kept, before, run(kept), all_wide, runs().currsize, errors, size == 1)


def _shortest(ranking: Ranking, run: Callable[[Sequence[int]], float], bound: float, before: float) -> int:
    """The length of the shortest beginning that meets the bound: searched from the predicted one in steps that double
    until lengths on both sides are known, then by bisection."""
    order, predicted = ranking.order, ranking.damage[0]
    # Measured errors by predicted ones, where none stays.
    scale = before / predicted[2] ** 0.5 if not predicted[0] and predicted[2] and before < 1 else 1.0
    fits = [k for k, (over, _, cost) in enumerate(ranking.damage) if not over and cost**0.5 * scale <= bound]
    fails, meets, at, step = 0, len(order), min(fits, default=len(order)), 1
    while meets - fails > 1:
        at = min(max(at, fails + 1), meets - 1)
        if run(order[:at]) <= bound:
            meets, at = at, at - step
        else:
            fails, at = at, at + step
        at, step = ((fails + meets) // 2 if fails and meets < len(order) else at), 2 * step
    return meets
