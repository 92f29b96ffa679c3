"""Names the stage of a platform that brings a fault: capture, export, optimiser, code generation, kernel.

The graph runs again on variants of the platform at fault, and each run shows the fault or not. Which runs are
made, and what they tell, is the backend's (`Staged`). Where no option of a platform switches a stage off, the stage is
unknown, and the reason is given.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mindgap.graph import Graph, MindgapError
from mindgap.graph.compare.verdict import CALM
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.environments import Environment
from mindgap.platforms.name import ENVIRONMENT, HOST, PlatformName, parse
from mindgap.platforms.other_environment import BackendInEnvironment
from mindgap.platforms.protocol import Staged
from mindgap.platforms.registry import find, registered
from mindgap.platforms.stages import Shown, Stage
from mindgap.results.rows import Row, identities
from mindgap.run.extensions import service
from mindgap.run.outcome import Outcome

_LONGEST: Final = 200
#: Share of two signatures that is equal where they are of one failure.
_ALIKE: Final = 0.6


@dataclass(frozen=True, slots=True)
class StageAtFault:
    """The stage, and its evidence. `evidence`: one sentence for each run that was made, or why it is `unknown`.
    `remedy`: the line that switches off just the pass that brings the fault; empty where none is known."""

    stage: Stage = "unknown"
    evidence: tuple[str, ...] = ()
    remedy: str = ""


def stage_at_fault(context: RunContext, graph: Graph, row: Row) -> StageAtFault:
    """Returns the stage that brings what `row` found in `graph`. `context`: runs any platform."""
    side = context.settings.reference if row.blame == "reference" else row.platform
    backend = registered(side.device_mode)
    find = backend.stage_at_fault if isinstance(backend, Staged) else None
    if find is None:
        return StageAtFault("unknown", (f"No option of {side} switches a stage off.",))
    runs, remedy = StageRuns(context, graph, row), ""
    try:
        stage = find(runs)
    except Exception as error:  # what a platform does wrong is data
        stage = "unknown"
        runs.note(f"Its backend failed to tell the stage: {type(error).__name__}: {_line(str(error))}.")
    else:
        remedy = service("pass_at_fault")(runs, stage)
        if stage == "unknown":
            runs.note("None of these runs tells the stage.")
    return StageAtFault(stage, tuple(runs.evidence), remedy)


class StageRuns:
    """Runs variants of the side at fault, and writes a sentence for each run (`VariantRuns`)."""

    def __init__(self, context: RunContext, graph: Graph, row: Row) -> None:
        """`context`: runs any platform. `row`: of this graph, a finding. Where the reference is to blame, variants are
        of the reference.
        """
        self._context, self._graph, self._row = context, graph, row
        self.of_reference = row.blame == "reference"
        self.side = context.settings.reference if self.of_reference else row.platform
        self.fails = row.verdict == "failed"
        #: The results have another shape or dtype than the reference's.
        self.structural = row.verdict == "structural"
        self.fault = context.run(self.side, graph)
        self.evidence: list[str] = []
        #: The last variant gave the bits of the fault, or failed in the same way.
        self.same_bits = False

    @property
    def name(self) -> PlatformName:
        """The platform at fault."""
        return self.side

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts that the executable at fault reports."""
        return self.fault.facts

    @property
    def fails_at_load(self) -> bool:
        """Whether the platform failed before it ran the graph."""
        stage = self.fault.reason.stage if self.fault.reason is not None else ""
        return self.fault.status == "compile_error" or stage.startswith("loading")

    def with_options(self, **options: str) -> PlatformName:
        """The platform at fault with these options added."""
        return self.side.with_options(**options)

    def in_same_environment(self, platform: str) -> PlatformName:
        """The name of another platform in the environment of the one at fault, also where that is its recipe's. What a
        layered environment has not installed itself is mindgap's own, and so is then the platform."""
        name, environment = parse(platform), self._environment()
        if self.side.host:
            return name.with_options(**{HOST: self.side.host})
        if environment is None:
            return name
        there = name.with_options(**{ENVIRONMENT: environment.name})
        backend, _ = find(there)
        return name if environment.layered and not backend.probe().available else there

    def _environment(self) -> Environment | None:
        backend, _ = find(self.side)
        where = backend.where if isinstance(backend, BackendInEnvironment) else None
        return where if isinstance(where, Environment) else None

    def note(self, sentence: str) -> None:
        """Adds a sentence to the evidence."""
        self.evidence.append(sentence)

    def ask(self, platform: str, words: str | None = "") -> Shown:
        """Runs the graph on a platform. `words`: what the evidence calls it, by default its name; None: no sentence."""
        answer, reason = self._run_variant(parse(platform))
        self.evidence += [] if words is None else [f"{words or platform} {reason}."]
        return answer

    def _run_variant(self, platform: PlatformName) -> tuple[Shown, str]:
        self.same_bits = False
        try:
            return self._judged(platform)
        except MindgapError as error:
            return "unclear", f"could not be run: {_line(str(error))}"

    def _judged(self, platform: PlatformName) -> tuple[Shown, str]:
        unopened = self._context.describe(platform).get("error")
        if unopened:
            return "unclear", f"could not be run: {_line(str(unopened))}"
        outcome = self._context.run(platform, self._graph)
        if outcome.status == "unsupported":
            return "unclear", f"does not run it: {_line(outcome.message)}"
        if not outcome.ran:
            return self._failed(outcome)
        if self.fails:
            return "right", "runs it"
        if identities(outcome) == identities(self.fault):
            self.same_bits = True
            return "shows", "gives the same bits"
        row = self._row_with(platform)
        if row.verdict in CALM:
            return "right", "gives the right result"
        return "shows", f"is {row.verdict} too, in other bits"

    def _failed(self, outcome: Outcome) -> tuple[Shown, str]:
        same = (outcome.status, outcome.signature) == (self.fault.status, self.fault.signature)
        self.same_bits = same or _alike(outcome.signature, self.fault.signature)
        text = "fails in the same way" if same else f"fails: {_line(outcome.message) or outcome.status}"
        return "shows" if self.fails else "unclear", text

    def _row_with(self, platform: PlatformName) -> Row:
        context = self._context
        if not self.of_reference:
            return GraphComparison(context, self._row.model, self._graph).row(platform)
        context = replace(context, settings=replace(context.settings, reference=platform))
        return GraphComparison(context, self._row.model, self._graph).row(self._row.platform)


def _alike(one: str, other: str) -> bool:
    """Whether two messages begin with the same line, but for what surrounds it."""
    first = [signature.partition(" | ")[0] for signature in (one, other)]
    return difflib.SequenceMatcher(None, first[0], first[1]).ratio() >= _ALIKE


def _line(message: str) -> str:
    return " ".join(message.split())[:_LONGEST].rstrip(".")
