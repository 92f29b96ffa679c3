"""Rows and reports: one row per model and platform, with the totals.

Every total that a table, a page or a JSON file shows comes from `Report.totals`.
"""

from __future__ import annotations

import importlib
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

from mindgap.graph.compare.culprit import Culprit, Example
from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.row_metrics import RowMetrics
from mindgap.graph.compare.verdict import (
    CALM,
    FINDINGS,
    Blame,
    Contradiction,
    Fault,
    OtherDecision,
    Verdict,
    Weakness,
    equivalence_classes,
)
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.name import PlatformName
from mindgap.results.drawn_graph import DrawnNode
from mindgap.results.quantisation_cost import QuantisationCost
from mindgap.run.outcome import Outcome, Status

#: Findings, worst first, then what is calm, most serious first.
SEVERITY: Final[tuple[str, ...]] = (*FINDINGS, "undefined", "internal", "ill_conditioned", "rounding", "identical")
#: What has no verdict.
WITHOUT_VERDICT: Final = ("not_judged", "unjudged", "not_run", "unsupported", "no_reference")


#: - `same`: the bits of the reference.
#: - `rounding`: rounding explains all of the difference to the reference.
#: - `as_graph`: further off, as the captured graph is on this platform: the row's finding explains it.
#: - `differs`: further off, and the captured graph is not.
#: - `failed`: the program cannot be exported, or what was exported does not run.
#: - `unjudged`: it differs, and was not judged.
#: - `not_compared`: it was not tried, or gave nothing that can be compared. `detail` has the reason.
#: - `kernels_left_out`: the same, of a quantised program, whose graph spells quantisation out in floats: its quantised
#:   kernels did not run on the platform.
OwnPathStatus = Literal[
    "same", "rounding", "as_graph", "differs", "failed", "unjudged", "not_compared", "kernels_left_out"
]


@dataclass(frozen=True, slots=True)
class OwnPath:
    """What the program gave on the way that the platform's users go, besides the captured graph.

    way: the call that exports or compiles it, such as `torch.onnx.export`.
    asked: what the program queries of its surroundings, with module and line:
        `torch.compiler.is_compiling() at blocks.1 (model.py:6)`.
    training: modules in training mode that compute something else in evaluation mode.
    reasons: what `detail` gives as reasons.
    """

    status: OwnPathStatus
    way: str = ""
    detail: str = ""
    asked: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    seconds: float = 0.0
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class NonFinite:
    """One output with values that are not finite: its position, how many of its elements are NaN or infinite."""

    output: int
    count: int
    elements: int


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one platform, compared with the reference.

    model, platform: what ran where.
    status: what the platform did.
    verdict: None where there is nothing to compare; `detail` gives the reason.
    metrics: of the output that differs most; of an `export` row, of the outputs by the program's own export.
    culprit, blame: what a finding names, and which side is wrong.
    message, signature: of a failure or a refusal; the signature lacks addresses, numbers and paths.
    detail: the judge's explanation of the verdict.
    profiles: whether the fixed tolerances `paper` and `assert_close` pass.
    timings: seconds by stage.
    digests: one text per output.
    nodes: (node, operator, role) for each node that the difference reaches; role is `introduces`, `amplifies`,
        `propagates` or `masks`.
    known: the baseline holds every fault of this finding.
    broken: the traceback of a failure of mindgap itself.
    unjudged: the row differs, and was not judged, for a limit or on request.
    verdicts: each output's own, in the graph's order.
    weaknesses: operators that were judged on weaker evidence.
    contradictions: outputs that do not fit other outputs of the same run, each of which may be within rounding.
    decisions: of a program captured along the path that values decided, those that came out otherwise on the platform,
        or that rounding may lead to another outcome; the former first.
    example: one element that the culprit gets wrong. A store does not hold it.
    script: runs the culprit by itself without mindgap, and was not run; empty where there is none. A store does not
        hold it.
    faults: what the judge found, the culprit's first; empty for calm rows, and where it did not look.
    delegation: what a delegate of the platform ran, where the platform reports it.
    reasons: why it is not run or not judged, on what it is judged, and why the platform refuses it (`ReasonKind`).
    own_path: what the program gave by the platform's own export; None for a graph without a program, and for eager
        mode.
    advice: what the reader can do, where that is known; of a finding, about its first fault. `results.from_store` works
        it out again.
    non_finite: outputs of the platform with NaN or infinities. `results.from_store` works them out again.
    around: the nodes of the captured graph near the first fault, with both sides' values where they were seen. A store
        does not hold it.
    """

    model: str
    platform: PlatformName
    status: Status
    verdict: Verdict | None
    metrics: RowMetrics = field(default_factory=RowMetrics)
    culprit: Culprit | None = None
    blame: Blame | None = None
    message: str = ""
    signature: str = ""
    detail: str = ""
    profiles: Mapping[str, bool] = field(default_factory=dict[str, bool])
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    digests: tuple[str, ...] = ()
    nodes: tuple[tuple[int, str, str], ...] = ()
    known: bool = False
    broken: str = ""
    unjudged: bool = False
    verdicts: tuple[Verdict, ...] = ()
    weaknesses: tuple[Weakness, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    decisions: tuple[OtherDecision, ...] = ()
    example: Example | None = None
    script: str = ""
    faults: tuple[Fault, ...] = ()
    delegation: Delegation | None = None
    own_path: OwnPath | None = None
    advice: str = ""
    non_finite: tuple[NonFinite, ...] = ()
    around: tuple[DrawnNode, ...] = ()
    reasons: tuple[Reason, ...] = ()

    @property
    def ran(self) -> bool:
        """The platform ran the graph, the same in each run or not."""
        return self.status in ("ok", "nondeterministic")

    @property
    def finding(self) -> bool:
        """Worth a person's time, known before or not."""
        return self.verdict is not None and self.verdict not in CALM

    @property
    def independent_faults(self) -> tuple[Fault, ...]:
        """The faults of a finding, one at least: of one that the judge did not look at, the finding itself."""
        if self.faults or self.verdict is None or not self.finding:
            return self.faults
        nodes = (self.culprit.node,) if self.culprit is not None and self.culprit.node >= 0 else ()
        return (
            Fault(self.culprit, self.verdict, self.blame, nodes, self.detail, self.example, self.script, self.known),
        )

    def with_known(self, known: Sequence[bool]) -> Row:
        """The row with what a baseline holds: for each of its faults, whether it is known."""
        pairs = zip(self.independent_faults, known, strict=True)
        faults = tuple(replace(fault, known=each) for fault, each in pairs)
        return replace(self, known=bool(faults) and all(known), faults=faults if self.faults else ())

    @property
    def by_fault(self) -> tuple[Row, ...]:
        """A finding as one row for each of its faults; a calm row as it is.

        Metrics, profiles, weaknesses, contradictions and decisions are of the whole row: only the first has them.
        """
        faults = self.independent_faults
        if len(faults) < 2:
            return (self,)
        rows = [
            replace(
                _with_message_of(each, self), verdict=each.verdict, culprit=each.culprit, blame=each.blame,
                detail=each.detail, example=each.example, script=each.script, known=each.known, faults=(each,),
                advice=each.advice,
            )
            for each in faults
        ]  # fmt: skip
        return (
            replace(rows[0], advice=self.advice),
            *(
                replace(
                    row, metrics=RowMetrics(), profiles={}, weaknesses=(), contradictions=(), decisions=(), around=()
                )
                for row in rows[1:]
            ),
        )

    @property
    def outputs(self) -> tuple[Verdict, ...]:
        """Each output's own verdict, in the graph's order; none where the outputs were not looked at."""
        if self.verdict == "identical":
            return ("identical",) * self.metrics.get("outputs", 0)
        return self.verdicts

    @property
    def unknown(self) -> bool:
        """Nothing is known of it: it was not run, or differs and was not judged."""
        return self.unjudged or self.status == "not_run"

    @property
    def word(self) -> str:
        """The verdict in one word for a table: a `null` verdict by its reason."""
        if self.verdict is not None:
            return self.verdict
        if self.status == "not_run":
            return "not_run"
        if self.broken:
            return "not_judged"
        if self.unjudged:
            return "unjudged"
        return "unsupported" if self.status == "unsupported" else "no_reference"

    def _repr_html_(self) -> str:
        return _shown_in_notebook(self)


def _shown_in_notebook(shown: Row | Report) -> str:
    # By its name: a room imports none above it.
    return importlib.import_module("mindgap.report.notebook").notebook_html(shown)


def _with_message_of(fault: Fault, row: Row) -> Row:
    """The row with what the platform printed of one of its failures alone, where that was seen."""
    alone = next((each for each in fault.reasons if each.kind == "failed_alone"), None)
    return row if alone is None else replace(row, message=alone.message, signature=alone.names[0])


@dataclass(frozen=True, slots=True)
class Model:
    """What was run, and what the reference did with it.

    digest: the graph's identity.
    nodes, operators: how many the graph has.
    inputs, outputs: dtype and shape of each, as text.
    source: the arguments by which a command line names it; empty where there are none.
    non_finite: the reference's outputs with NaN or infinities.
    argument_sets: how many sets of arguments it was run with; nodes, inputs and outputs are those of the first.
    quantisation_cost: how far the reference's outputs are from a float model's; None where none was given. A store does
        not hold it.
    """

    name: str
    digest: str
    nodes: int
    operators: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reference_status: Status
    reference_message: str = ""
    reference_digests: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    source: str = ""
    non_finite: tuple[NonFinite, ...] = ()
    argument_sets: int = 1
    quantisation_cost: QuantisationCost | None = None


@dataclass(frozen=True, slots=True)
class PlatformFacts:
    """A platform as `mindgap platforms --json` lists it.

    execution: `simulated` or `emulated` where no device, or another instruction set, computes; empty for native.
    arithmetic: how exact the last check of such a platform was; empty for native.
    """

    platform: PlatformName
    backend: str
    available: bool
    reason: str = ""
    hardware: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    execution: str = ""
    arithmetic: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A source that gave no graph, and why. `broken`: mindgap itself failed on it, and this is its traceback."""

    source: str
    reason: str
    broken: str = ""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over all rows.

    words, statuses: rows by verdict and by status; `words` sums to `rows`.
    findings: rows that are worth a person's time, `known` + `new`.
    faults: those of all findings; `new_faults` of them are not in the baseline.
    broken: rows and sources that mindgap itself failed on.
    """

    models: int
    platforms: int
    rows: int
    refused: int
    broken: int
    words: Mapping[str, int]
    statuses: Mapping[str, int]
    findings: int
    known: int
    new: int
    faults: int
    new_faults: int


@dataclass(frozen=True)
class Report:
    """Everything one `diff` found. Rows are in the order of models, then of platforms."""

    reference: PlatformName
    platforms: tuple[PlatformFacts, ...]
    models: tuple[Model, ...]
    rows: tuple[Row, ...]
    refused: tuple[Refused, ...] = ()
    created: str = ""
    version: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        """What `mindgap diff` prints of it."""
        importlib.import_module("mindgap.cli.tables").print_report(self, text := io.StringIO())
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        return _shown_in_notebook(self)

    @cached_property
    def findings(self) -> tuple[Row, ...]:
        """The rows worth a person's time, worst first; equally bad ones in the order of `rows`."""
        return tuple(sorted((r for r in self.rows if r.finding), key=lambda r: SEVERITY.index(str(r.verdict))))

    @property
    def new_findings(self) -> tuple[Row, ...]:
        """Findings that the baseline does not hold."""
        return tuple(row for row in self.findings if not row.known)

    @cached_property
    def executions(self) -> Mapping[str, str]:
        """Platform -> `simulated` or `emulated`; native ones are left out."""
        return {fact.platform: fact.execution for fact in self.platforms if fact.execution}

    def execution_words(self, platform: PlatformName) -> str:
        """How a platform is executed, and how exact its arithmetic was found; empty for native ones."""
        facts = next((fact for fact in self.platforms if fact.platform == platform and fact.execution), None)
        return "" if facts is None else ", ".join(filter(None, (facts.execution, facts.arithmetic)))

    def shown(self, platform: PlatformName) -> str:
        """The platform's name, with `(simulated)` or `(emulated)` behind it where it is no hardware."""
        execution = self.executions.get(platform)
        return f"{platform} ({execution})" if execution else str(platform)

    @cached_property
    def totals(self) -> Totals:
        """The one place where anything is counted."""
        known = sum(row.known for row in self.findings)
        faults = [fault for row in self.findings for fault in row.independent_faults]
        return Totals(
            models=len(self.models),
            platforms=len({row.platform for row in self.rows}),
            rows=len(self.rows),
            refused=len(self.refused),
            broken=sum(bool(each.broken) for each in (*self.rows, *self.refused)),
            words=ordered(Counter(row.word for row in self.rows)),
            statuses=dict(sorted(Counter(row.status for row in self.rows).items())),
            findings=len(self.findings),
            known=known,
            new=len(self.findings) - known,
            faults=len(faults),
            new_faults=sum(not fault.known for fault in faults),
        )

    @property
    def nothing(self) -> str | None:
        """Why this report judges no platform, or None where it judges one."""
        if not self.models:
            return "no model was captured: nothing ran"
        if not self.rows and any(each.platform != self.reference for each in self.platforms):
            return "no platform had run a model yet: nothing was compared"
        if not self.rows:
            return "no platform was asked for besides the reference: nothing was compared"
        if all(row.status == "unsupported" for row in self.rows):
            return "every row is unsupported: no platform ran any model"
        if all(row.status == "not_run" for row in self.rows):
            return "no platform ran a model: no time or memory was left for it"
        if all(row.verdict is None and not row.broken and not row.unjudged for row in self.rows):
            return f"the reference {self.reference} ran nothing that a platform also ran: nothing was compared"
        if all(row.unjudged and not row.metrics for row in self.rows):
            return "every row differs, and no difference was judged"
        return None

    @property
    def finite(self) -> bool:
        """Whether no output of a platform that ran, or of the reference, has NaN or infinities."""
        return not any(each.non_finite for each in (*self.models, *self.rows))

    def classes(self, model: str) -> tuple[tuple[PlatformName, ...], ...]:
        """Platforms whose outputs for `model` are bitwise equal: the reference's class first, then by size."""
        outputs = {row.platform: row.digests for row in self.rows if row.model == model and row.digests}
        for entry in self.models:
            if entry.name == model and entry.reference_digests:
                outputs[self.reference] = entry.reference_digests
        order = list(dict.fromkeys([self.reference, *(row.platform for row in self.rows)]))
        sorted_classes = sorted(equivalence_classes(outputs), key=lambda members: self.reference not in members)
        return tuple(tuple(sorted(members, key=order.index)) for members in sorted_classes)

    def to_json(self) -> str:
        """One JSON object; strict JSON, so that NaN and infinities are the strings "nan", "inf", "-inf"."""
        from mindgap.results.report_json import encode_report

        return encode_report(self)


def ordered(words: Counter[str]) -> dict[str, int]:
    """Worst first, what has no verdict last."""
    rank = {word: number for number, word in enumerate((*SEVERITY, *WITHOUT_VERDICT))}
    return {word: words[word] for word in sorted(words, key=lambda word: rank[word])}


def non_finite(outcome: Outcome) -> tuple[NonFinite, ...]:
    """The outputs of an outcome that have NaN or infinities, by their sketches."""
    cases: list[NonFinite] = []
    for position, output in enumerate(outcome.outputs if outcome.ran else ()):
        count = output.sketch.nan + output.sketch.pos_inf + output.sketch.neg_inf
        if count:
            cases.append(NonFinite(position, count, math.prod(output.shape)))
    return tuple(cases)


def identities(outcome: Outcome) -> tuple[str, ...]:
    """One text per output, equal exactly where dtype, shape and bytes are equal. Empty for what did not run."""
    if not outcome.ran:
        return ()
    return tuple(f"{d.dtype}{list(d.shape)}:{d.digest}" for d in outcome.outputs)
