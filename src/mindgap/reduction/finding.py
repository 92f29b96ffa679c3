"""Reduces one finding: a graph on one platform, to a small graph, its row, and a script that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from mindgap.graph import Graph, MindgapError, materialise_all
from mindgap.pipeline.comparison import GraphComparison, RunContext
from mindgap.pipeline.culprit_script import target_of
from mindgap.reduction.hang import with_hang_deadline
from mindgap.reduction.reducer import Reduction, ReductionLimits, reduce
from mindgap.reduction.reproducer import CRASH_LIMIT_S, Reproducer, reproducer
from mindgap.reduction.specification import specified_in_worker
from mindgap.reduction.stage import StageAtFault, stage_at_fault
from mindgap.reduction.symptom import check_of, symptom_of
from mindgap.results.rows import Row


@dataclass(frozen=True, slots=True)
class ReducedFinding:
    """`row`: of the reduced graph. `passing`: the row of the nearest graph that is calm; None where there is none.

    `before`, `row_before`: the graph as it was found, and what was found in it. `special_inputs`: an input of the
    reduced graph holds NaN or infinity. `stage`: the stage of the side at fault that brings the finding.
    """

    reduction: Reduction
    row: Row
    passing: Row | None
    reproducer: Reproducer
    before: Graph
    row_before: Row
    special_inputs: bool
    stage: StageAtFault


def reduce_finding(
    context: RunContext, graph: Graph, row: Row, limits: ReductionLimits | None = None
) -> ReducedFinding:
    """Reduces what `row` found in `graph`. `context`: runs any platform, such as a worker pool that grows.

    Raises `MindgapError` for a row that is no finding, and where the graph no longer shows it.
    """
    symptom = symptom_of(row)
    trials, deadline = context, None
    if symptom.status == "timeout":
        trials, deadline = with_hang_deadline(context, row.platform, graph)
    check = check_of(symptom, trials)
    nodes = (row.culprit.node,) if row.culprit is not None and row.culprit.node >= 0 else ()
    specify = partial(specified_in_worker, execute=context.execute)
    found = reduce(graph, check, context.tensors, nodes=nodes, limits=limits, specify=specify)
    last = GraphComparison(context, row.model, found.graph).row(row.platform)
    final = symptom.found_in(last)
    if final is None:
        raise MindgapError(
            f"{row.model} on {row.platform}: the finding did not come again; the last run is {last.word}"
        )
    passing = None if found.passing is None else GraphComparison(context, row.model, found.passing).row(row.platform)
    inputs = materialise_all(found.graph, context.tensors)
    target, reference = target_of(row.platform), target_of(context.settings.reference)
    limit_s = CRASH_LIMIT_S if deadline is None else deadline.script_seconds
    made = reproducer(found.graph, inputs, target, reference, final, limit_s)
    special = not all(np.isfinite(array).all() for array in inputs)
    asked = limits is None or limits.stage
    stage = (
        stage_at_fault(trials, found.graph, final) if asked else StageAtFault("unknown", ("It was not looked for.",))
    )
    return ReducedFinding(found, final, passing, made, graph, row, special, stage)
