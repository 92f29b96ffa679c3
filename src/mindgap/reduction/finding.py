"""Reduces one finding: a graph on one platform, to a small graph, its row, and a script that shows it."""

from __future__ import annotations

from dataclasses import dataclass

from mindgap.graph import Graph, MindgapError, materialise_all
from mindgap.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.registry import environment, find, parse
from mindgap.reduction.reducer import Reduction, ReductionLimits, reduce
from mindgap.reduction.reproducer import Reproducer, reproducer
from mindgap.reduction.symptom import check_of, symptom_of
from mindgap.results.rows import Row
from mindgap.script import Target


@dataclass(frozen=True, slots=True)
class ReducedFinding:
    """`row`: of the reduced graph. `passing`: the row of the nearest graph that is calm; None where there is none."""

    reduction: Reduction
    row: Row
    passing: Row | None
    reproducer: Reproducer


def reduce_finding(
    context: RunContext, graph: Graph, row: Row, limits: ReductionLimits | None = None
) -> ReducedFinding:
    """Reduces what `row` found in `graph`. `context`: runs the row's platform and the reference.

    Raises `MindgapError` for a row that is no finding, and where the graph no longer shows it.
    """
    symptom = symptom_of(row)
    check = check_of(symptom, context)
    nodes = (row.culprit.node,) if row.culprit is not None and row.culprit.node >= 0 else ()
    found = reduce(graph, check, context.tensors, nodes=nodes, limits=limits)
    final = GraphComparison(context, row.model, found.graph).row(row.platform)
    if not symptom.shown_by(final):
        raise MindgapError(
            f"{row.model} on {row.platform}: the finding did not come again; the last run is {final.word}"
        )
    passing = None if found.passing is None else GraphComparison(context, row.model, found.passing).row(row.platform)
    inputs = materialise_all(found.graph, context.tensors)
    target, reference = target_of(row.platform), target_of(context.settings.reference)
    return ReducedFinding(found, final, passing, reproducer(found.graph, inputs, target, reference, final))


def target_of(platform: str) -> Target:
    """The platform as a script runs it, with the environment variables that its worker starts with."""
    backend, _ = find(platform)
    return Target.of(platform, environment(parse(platform), backend))
