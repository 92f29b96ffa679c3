"""What a reduction must keep: the verdict of a row, its side, its operators, and how it fails."""

from __future__ import annotations

from dataclasses import dataclass

from mindgap.compare.verdict import CALM
from mindgap.graph import Graph, MindgapError
from mindgap.pipeline.comparison import GraphComparison, RunContext
from mindgap.reduction.reducer import Answer, Check
from mindgap.results.rows import Row


@dataclass(frozen=True, slots=True)
class Symptom:
    """What one row shows. `operators`: overloads at fault, empty where none is named. `signature`: of a failure."""

    platform: str
    verdict: str
    blame: str
    operators: frozenset[str]
    signature: str

    def shown_by(self, row: Row) -> bool:
        """Whether the row shows the same. Where this names operators, the row must name one of them."""
        if (row.platform, row.verdict, row.blame or "") != (self.platform, self.verdict, self.blame):
            return False
        if self.signature:
            return row.signature == self.signature
        return not self.operators or bool(self.operators & _operators(row))


def symptom_of(row: Row) -> Symptom:
    """The symptom of a finding. Raises `MindgapError` for a row that is none."""
    if row.verdict is None or row.verdict in CALM:
        raise MindgapError(f"{row.model} on {row.platform} is {row.word}: there is nothing to reduce")
    signature = row.signature if row.verdict == "failed" else ""
    return Symptom(row.platform, row.verdict, row.blame or "", _operators(row), signature)


def check_of(symptom: Symptom, context: RunContext) -> Check:
    """A check that runs a graph on the reference and on the symptom's platform, and judges it."""

    def check(graph: Graph) -> Answer:
        row = GraphComparison(context, "reduced", graph).row(symptom.platform)
        if symptom.shown_by(row):
            return "shows"
        return "calm" if row.verdict in CALM else "other"

    return check


def _operators(row: Row) -> frozenset[str]:
    if row.culprit is None or row.verdict == "failed":
        return frozenset()
    return frozenset(op for op in row.culprit.op.split("+") if op.count(".") == 2)
