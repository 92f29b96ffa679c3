"""Decides which pass of the stage at fault brings a fault, by runs without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mindgap.platforms.stages import Stage, VariantRuns
from mindgap_diagnosis.passes.pass_lists import PASSES, PassList, inductor_switches
from mindgap_diagnosis.passes.smallest_set import smallest_set

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
        line = _by_switch(runs, inductor_switches(stage))
    if line:
        runs.note(f"This line alone switches it off: `{line}`.")
    return line


def _by_switch(runs: VariantRuns, switches: Mapping[str, str]) -> str:
    """The line of the first value of the option `off` with which the fault is gone, twice."""
    for value, line in switches.items():
        variant = runs.with_options(off=value)
        if runs.ask(variant) == "right" and runs.ask(variant, f"{variant}, a second time,") == "right":
            return line
    return ""


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
    words = " and ".join(chosen)
    others = [each for each in names if each not in chosen]
    alone = runs.ask(runs.with_options(**{WITHOUT: "+".join(others)}), None) == "shows"
    runs.note(f"Without {words} it gives the right result, twice.")
    runs.note(f"With {words} and none of the other passes it {'shows the fault' if alone else 'does not show it'}.")
    return passes.line(chosen)
