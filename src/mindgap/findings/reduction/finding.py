"""Reduces one finding: a graph on one platform, to a small graph, its row, and a script that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from mindgap.findings.reduction.condition import TriggerCondition, condition_of
from mindgap.findings.reduction.hang import with_hang_deadline
from mindgap.findings.reduction.model_file import with_model_file
from mindgap.findings.reduction.passes import alone
from mindgap.findings.reduction.reducer import Check, Reduction, ReductionLimits, reduce
from mindgap.findings.reduction.reproducer import CRASH_LIMIT_S, Array, Reproducer, short_reproducer
from mindgap.findings.reduction.specification import specified_in_worker
from mindgap.findings.reduction.stage import StageAtFault, stage_at_fault
from mindgap.findings.reduction.symptom import check_of, symptom_of
from mindgap.findings.reduction.validity import refusal
from mindgap.findings.reduction.version_reproducer import Version, are_versions, version_reproducer, version_words
from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.findings.script.short import ShownCase
from mindgap.graph import Graph, GraphError, MindgapError, TensorStore, materialise_all
from mindgap.graph.compare.reason import has
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Row


@dataclass(frozen=True, slots=True)
class ReducedFinding:
    """`row`: of the reduced graph. `passing`: the row of the nearest graph that is calm; None where there is none.

    `before`, `row_before`: the graph as it was found, and what was found in it. `special_inputs`: an input of the
    reduced graph holds NaN or infinity. `stage`: the stage of the side at fault that brings the finding. `refused`: why
    no public function makes the reduced graph, one sentence; empty where one makes each node. `condition`: what
    triggers it.
    """

    reduction: Reduction
    row: Row
    passing: Row | None
    reproducer: Reproducer
    before: Graph
    row_before: Row
    special_inputs: bool
    stage: StageAtFault
    refused: str = ""
    condition: TriggerCondition = TriggerCondition()  # noqa: RUF009 # frozen


def reduce_finding(
    context: RunContext, graph: Graph, row: Row, limits: ReductionLimits | None = None
) -> ReducedFinding:
    """Reduces what `row` found in `graph`. `context`: runs any platform, such as a worker pool that grows.

    A refusal is reduced too: to what the platform refuses and the reference runs. Raises `MindgapError` for a row that
    is neither, and where the graph no longer shows it.
    """
    symptom = symptom_of(row)
    trials, deadline = context, None
    if symptom.status == "timeout":
        trials, deadline = with_hang_deadline(context, row.platform, graph)
    check = check_of(symptom, trials)
    start = _failing_alone(graph, row, check, context.tensors)
    nodes = (row.culprit.node,) if start is graph and row.culprit is not None and row.culprit.node >= 0 else ()
    specify = partial(specified_in_worker, execute=context.execute)
    reduction = reduce(start, check, context.tensors, nodes=nodes, limits=limits, specify=specify)
    last = GraphComparison(context, row.model, reduction.graph).row(row.platform)
    final = symptom.found_in(last)
    if final is None:
        raise MindgapError(
            f"{row.model} on {row.platform}: the finding did not come again; the last run is {last.word}"
        )
    passing = (
        None if reduction.passing is None else GraphComparison(context, row.model, reduction.passing).row(row.platform)
    )
    inputs = materialise_all(reduction.graph, context.tensors)
    limit_s = CRASH_LIMIT_S if deadline is None else deadline.script_seconds
    condition = TriggerCondition()
    limits = limits or ReductionLimits()
    if limits.condition_s > 0:
        condition = condition_of(reduction.graph, check, context.tensors, specify=specify, seconds=limits.condition_s)
    made = _script(context, reduction.graph, inputs, final, limit_s, condition)
    if not made.text:
        made = with_model_file(made, reduction.graph, final, context)
    special = not all(np.isfinite(array).all() for array in inputs)
    wanted = limits.stage and final.verdict is not None
    stage = (
        stage_at_fault(trials, reduction.graph, final)
        if wanted
        else StageAtFault("unknown", ("It was not looked for.",))
    )
    return ReducedFinding(
        reduction, final, passing, made, graph, row, special, stage, refusal(reduction.graph, inputs), condition
    )


def _failing_alone(graph: Graph, row: Row, check: Check, tensors: TensorStore | None) -> Graph:
    """Of one of several failures the part of the graph that fails without the others; else the graph."""
    fault = row.independent_faults[0]
    if graph.grad or not has(fault.reasons, "failed_alone"):
        return graph
    for made in alone(graph, fault.nodes, tensors):
        with suppress(GraphError):
            part = made()
            if check(part) == "shows":
                return part
    return graph


def _script(
    context: RunContext, graph: Graph, inputs: Sequence[Array], row: Row, limit_s: float, condition: TriggerCondition
) -> Reproducer:
    """The short script of a finding, run: in two environments where platform and reference are two versions of one."""
    natural = condition.natural
    cases = [] if natural is None else [ShownCase("natural", natural, materialise_all(natural, context.tensors))]
    names = (row.platform, context.settings.reference)
    platform, reference = map(script_platform_of, names)
    if not are_versions(platform, reference):
        return short_reproducer(graph, inputs, platform, reference, row, limit_s, cases)
    fails = row.verdict in ("failed", None)
    outputs = [() if fails else _outputs(context, name, graph) for name in names]
    new = Version(names[0], platform, version_words(platform, reference), outputs[0])
    old = Version(names[1], reference, version_words(reference, platform), outputs[1])
    faulty, expected = (old, new) if row.blame == "reference" else (new, old)
    return version_reproducer(graph, inputs, faulty, expected, row, limit_s)


def _outputs(context: RunContext, platform: PlatformName, graph: Graph) -> tuple[Array, ...]:
    outcome = context.run(platform, graph, "outputs")
    if outcome.arrays is None:
        raise MindgapError(f"{platform} ran the reduced graph, and {outcome.status} when it was run again")
    return outcome.arrays
