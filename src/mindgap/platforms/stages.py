"""Defines the stages of a runtime, and decides which of them brings a fault from runs of the platform's variants.

A backend that can tell them has `stage_at_fault(runs)` (`protocol.Staged`). Each runtime's `stages.py` defines which
runs are made; what is here is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from mindgap.platforms.name import PlatformName, parse

#: A stage between a PyTorch program and its results, in the order in which a program passes them.
#: `device plugin`: OpenVINO's graph compiler or kernel, which no public option separates.
#: `compiler`: what is behind a front end (converter, graph compiler, code generation, kernel), where no run shows more.
#: `delegate`: XNNPACK as ExecuTorch or LiteRT calls it, or OpenVINO as ONNX Runtime calls it: its translation of the
#: operators or its kernels.
#: `unknown`: the evidence has the reason.
Stage = Literal[
    "graph capture", "functionalisation", "decomposition", "exporter", "front end", "graph optimiser", "graph compiler",
    "graph pass", "fusion", "vectorised code generation", "code generation", "compiler", "executor optimisation",
    "runtime load", "device plugin", "delegate", "interpreter", "oneDNN kernel", "kernel (ISA tier)", "kernel",
    "unknown",
]  # fmt: skip
#: Whether a variant shows the fault. `unclear`: it refuses the graph, or fails where the fault is a wrong result.
Shown = Literal["shows", "right", "unclear"]


class VariantRuns(Protocol):
    """Runs a reduced graph on variants of the platform at fault, and keeps a sentence of evidence for each run."""

    #: Failures are looked at, not wrong results.
    fails: bool
    #: The results have another shape or dtype than the reference's.
    structural: bool
    #: The last variant gave the bits of the fault, or failed in the same way.
    same_bits: bool

    @property
    def name(self) -> PlatformName:
        """The platform at fault."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts that the executable at fault reports."""
        ...

    @property
    def fails_at_load(self) -> bool:
        """Whether the platform failed before it ran the graph."""
        ...

    def with_options(self, **options: str) -> PlatformName:
        """Returns the platform at fault with these options added."""
        ...

    def in_same_environment(self, platform: str) -> PlatformName:
        """Returns the name of another platform (also by `package.module:attribute`) in the environment of the one at
        fault."""
        ...

    def note(self, sentence: str) -> None:
        """Adds a sentence to the evidence."""
        ...

    def ask(self, platform: str, words: str | None = "") -> Shown:
        """Runs the graph on a platform. `words`: what the evidence calls it, by default its name; None: no sentence."""
        ...


@dataclass(frozen=True, slots=True)
class StageStep:
    """A platform that runs a runtime's steps up to one. `stage`: which brings a failure of it. `words`: what it is."""

    platform: str
    stage: Stage
    words: str


def stage_by(shown: Shown, *, shows: Stage, right: Stage) -> Stage:
    """Returns the stage that an answer shows."""
    if shown == "unclear":
        return "unknown"
    return shows if shown == "shows" else right


def right_with(runs: VariantRuns, option: str, value: str) -> bool:
    """Whether the fault is gone with a value of an option that the platform at fault does not have."""
    return runs.name.options.get(option) != value and runs.ask(runs.with_options(**{option: value})) == "right"


def first_failing(runs: VariantRuns, steps: Sequence[StageStep]) -> Stage | None:
    """Returns the stage of the first step that fails; None where all of them run.

    `unknown`: a step failed in another way than the platform, so that what comes after it is unknown.
    """
    for step in steps:
        shown = runs.ask(runs.in_same_environment(step.platform), step.words)
        if shown == "shows" and runs.same_bits:
            return step.stage
        if shown != "right":
            return "unknown"
    return None


def stage_of_failure(runs: VariantRuns, steps: Sequence[StageStep], *, load: Stage, run: Stage = "kernel") -> Stage:
    """Returns the stage of a failure. `load`, `run`: those of a platform that fails to load, or to run, what all
    `steps` translate."""
    if not runs.fails_at_load:
        runs.note("It is loaded, and fails while it runs.")
        return run
    stage = first_failing(runs, steps)
    return load if stage is None else stage


def stable_hlo_shows(runs: VariantRuns, step: str) -> Shown:
    """Looks at the StableHLO program that a front end writes. `step`: the platform that stops at it."""
    if runs.structural:
        return runs.ask(runs.in_same_environment(step), "The StableHLO program, by the types that it declares,")
    values = runs.in_same_environment(parse(step).with_options(run="values"))
    return runs.ask(values, "The StableHLO program in StableHLO's reference interpreter")
