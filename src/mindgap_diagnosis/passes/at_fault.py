"""Decides which passes of a platform's optimiser bring a fault, by runs without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mindgap.platforms.stages import Stage, VariantRuns
from mindgap_diagnosis.passes.pass_lists import PASSES, PassList, inductor_switches

#: The option that leaves passes out.
WITHOUT: Final = "without"
#: The fewest passes that are no answer: a list as long as this is no help.
_MANY: Final = 4


def pass_at_fault(runs: VariantRuns, stage: Stage) -> str:
    """Returns the line that switches off just the pass that brings the fault; empty where none is known.

    `stage`: the stage at fault. What ran is written into the evidence of `runs`.
    """
    if runs.name.options.get(WITHOUT):
        return ""
    passes = PASSES.get(runs.name.device_mode)
    line = _by_list(runs, passes) if passes is not None and stage in passes.stages else ""
    if not line and runs.name.mode.endswith("inductor"):
        line = next((text for value, text in inductor_switches(stage).items() if _right_without(runs, value)), "")
    if line:
        runs.note(f"This line alone switches it off: `{line}`.")
    return line


def _right_without(runs: VariantRuns, switched_off: str) -> bool:
    variant = runs.with_options(off=switched_off)
    return all(runs.ask(variant, words) == "right" for words in ("", f"{variant}, a second time,"))


def _by_list(runs: VariantRuns, passes: PassList) -> str:
    """Bisects the list of passes. The evidence has the last runs alone, not those of the bisection."""
    names = passes.names(runs.name)

    def right(left_out: Sequence[str]) -> bool:
        return runs.ask(runs.with_options(**{WITHOUT: "+".join(left_out)}), None) == "right"

    if not names or not right(names):
        runs.note(f"It stays without the {len(names)} passes that can be left out by name.")
        return ""
    chosen = smallest_set(names, right)
    if len(chosen) >= _MANY or not all(right(chosen) for _ in range(2)):
        runs.note(f"It is gone without the {len(names)} passes that can be left out by name; no few of them bring it.")
        return ""
    others = "+".join(each for each in names if each not in chosen)
    alone = runs.ask(runs.with_options(**{WITHOUT: others}), None) == "shows"
    words = " and ".join(chosen)
    runs.note(f"Without {words} it gives the right result, twice.")
    runs.note(f"With {words} and none of the other passes it {'shows the fault' if alone else 'does not show it'}.")
    return passes.line(chosen)


def smallest_set(names: Sequence[str], right: Callable[[Sequence[str]], bool]) -> list[str]:
    """Returns a set of names, none of which can be left out: without them the fault is gone.

    `right` is true for all `names`, and for more of them wherever it is for fewer. Each name of the answer takes
    log2(n) calls: the shortest beginning of the names that suffices, with those already chosen, ends with one.
    """
    chosen, rest = list[str](), list(names)
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
