"""Tells the stage of a failure by the steps before the runtime, each of which runs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindgap.findings.reduction.stage.at_fault import Stage
from mindgap.findings.reduction.stage.runs import Shown, StageRuns


@dataclass(frozen=True, slots=True)
class Step:
    """A platform that runs a runtime's steps up to one. `stage`: which brings a failure of it. `words`: what it is."""

    platform: str
    stage: Stage
    words: str


def stage_by(shown: Shown, *, shows: Stage, right: Stage, unclear: Stage = "unknown") -> Stage:
    """The stage that an answer tells."""
    if shown == "unclear":
        return unclear
    return shows if shown == "shows" else right


def fails_at_load(runs: StageRuns) -> bool:
    """Whether the platform failed before it ran the graph."""
    return runs.fault.status == "compile_error" or "loading" in runs.fault.signature


def first_failing(runs: StageRuns, steps: Sequence[Step]) -> Stage | None:
    """The stage of the first step that fails; None where all of them run.

    `unknown`: a step failed in another way than the platform, so that what comes after it cannot be told.
    """
    for step in steps:
        shown = runs.ask(runs.beside(step.platform), step.words)
        if shown == "shows" and runs.same_bits:
            return step.stage
        if shown != "right":
            return "unknown"
    return None


def stage_of_failure(runs: StageRuns, steps: Sequence[Step], *, load: Stage, run: Stage = "kernel") -> Stage:
    """The stage of a failure. `load`, `run`: those of a platform that fails to load, or to run, what all `steps`
    translate."""
    if not fails_at_load(runs):
        runs.note("It is loaded, and fails while it runs.")
        return run
    found = first_failing(runs, steps)
    return load if found is None else found
