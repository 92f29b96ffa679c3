"""Finds the smallest set of passes without which a fault is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: Whether the fault is gone without these passes.
IsRight = Callable[[Sequence[str]], bool]


def smallest_set(names: Sequence[str], right: IsRight) -> list[str]:
    """Returns a set of names, none of which can be left out: without them the fault is gone.

    `right` is true for all `names`, and for more of them wherever it is for fewer. Each name of the answer takes
    log2(n) calls: the shortest beginning of the names that suffices, with those already chosen, ends with one.
    """
    chosen: list[str] = []
    rest = list(names)
    while not (chosen and right(chosen)):
        low, high = 0, len(rest)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if right([*chosen, *rest[:middle]]) else (middle, high)
        if not high:
            return chosen
        chosen.append(rest[high - 1])
        rest = rest[: high - 1]
    return chosen
