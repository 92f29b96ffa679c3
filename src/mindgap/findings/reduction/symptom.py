"""What a reduction must keep: the verdict of a row, its side, its operators, and how it fails."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mindgap.findings.reduction.reducer import Answer, Check
from mindgap.graph import Graph, MindgapError
from mindgap.graph.compare.verdict import CALM
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Row


@dataclass(frozen=True, slots=True)
class Symptom:
    """What one row shows.

    `operators`: overloads at fault, empty where none is named; `culprit`: then the culprit's own text, such as a dtype
    policy. `status`, `signature`: of a failure or a refusal; a crash has no signature, as what it prints depends on
    memory. `verdict`: None of a refusal.
    """

    platform: PlatformName
    verdict: str | None
    blame: str
    operators: frozenset[str]
    culprit: str = ""
    status: str = ""
    signature: str = ""

    def shown_by(self, row: Row) -> bool:
        """Whether the row shows the same: platform, verdict, side, and the failure or the operators.

        The row's operators must be among those of the symptom, and more than one where a set shows it together.
        """
        if (row.platform, row.verdict, row.blame or "") != (self.platform, self.verdict, self.blame):
            return False
        if self.status:
            return row.status == self.status and (not self.signature or row.signature == self.signature)
        operators_now = _operators(row)
        if not self.operators:
            return not operators_now and _culprit(row) == self.culprit
        return (
            bool(operators_now)
            and operators_now <= self.operators
            and (len(operators_now) > 1 or len(self.operators) == 1)
        )

    def found_in(self, row: Row) -> Row | None:
        """The row of the fault that shows the same, of a row with one or several faults; None where none does."""
        return next((each for each in row.by_fault if self.shown_by(each)), None)


def symptom_of(row: Row) -> Symptom:
    """The symptom of a finding, or of a refusal.

    Raises `MindgapError` for a row that is neither, and for one whose reference failed.
    """
    if row.status == "unsupported" and row.verdict is None:
        return Symptom(row.platform, None, "", frozenset(), "", row.status, row.signature)
    if row.verdict is None or row.verdict in CALM:
        raise MindgapError(f"{row.model} on {row.platform} is {row.word}: there is nothing to reduce")
    if row.verdict == "reference_failed":
        raise MindgapError(f"{row.model}: the reference fails, and no script compares with it: {row.detail}")
    if row.verdict == "failed":
        signature = "" if row.status == "crash" else row.signature
        return Symptom(row.platform, row.verdict, row.blame or "", frozenset(), "", row.status, signature)
    return Symptom(row.platform, row.verdict, row.blame or "", _operators(row), _culprit(row))


def check_of(symptom: Symptom, context: RunContext) -> Check:
    """A check that runs a graph on the reference and on the symptom's platform, and judges it.

    A failure is known by its status and message: the operator that causes it is not looked for. A refusal counts where
    the reference runs the graph.
    """
    if symptom.status:
        context = replace(context, settings=replace(context.settings, trace=False))

    def check(graph: Graph) -> Answer:
        comparison = GraphComparison(context, "reduced", graph)
        row = comparison.row(symptom.platform)
        if symptom.verdict is None and not comparison.reference.ran:
            return "other"
        if symptom.found_in(row) is not None:
            return "shows"
        return "calm" if row.verdict in CALM else "other"

    return check


def _operators(row: Row) -> frozenset[str]:
    return frozenset(() if row.culprit is None else row.culprit.overloads)


def _culprit(row: Row) -> str:
    return "" if row.culprit is None else row.culprit.op
