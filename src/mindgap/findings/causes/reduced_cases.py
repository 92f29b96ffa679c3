"""Reads reduced findings with their graphs, and runs graphs in which operators were swapped."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from mindgap.findings.causes.inner_operators import inner_functions
from mindgap.findings.causes.key import damage_of
from mindgap.findings.causes.mechanism import ReducedCase, Run, ShownDamage
from mindgap.findings.reduction.files import Summary
from mindgap.findings.reduction.specification import specified_in_worker
from mindgap.findings.reduction.stage import stage_at_fault
from mindgap.graph import Graph, GraphError, MindgapError, TensorStore, load, materialise_all
from mindgap.graph.compare.verdict import CALM
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import PlatformName


def reduced_cases(out: Path, summaries: Iterable[Summary]) -> list[ReducedCase]:
    """The findings with their graphs in the directory `out` of a reduction; without graphs where these are missing."""
    return [_case(out, summary) for summary in summaries]


def _case(out: Path, summary: Summary) -> ReducedCase:
    graph = _graph(out / Path(summary.script).with_suffix(".graph"))
    passing = _graph(out / Path(summary.script).with_suffix(".passing.graph"))
    return ReducedCase(summary, graph, passing, () if graph is None else inner_functions(graph))


def _graph(file: Path) -> Graph | None:
    try:
        return load(file) if file.is_file() else None
    except MindgapError:
        return None


def run_with(context: RunContext) -> Run:
    """Runs drafts of graphs on the platforms of a context, judges them, and looks for the stage of what is wrong."""
    return partial(_shown, context)


def _shown(context: RunContext, platform: PlatformName, draft: Graph) -> ShownDamage | None:
    try:
        graph = specified_in_worker(draft, context.execute)
    except GraphError:
        return None
    row = GraphComparison(context, "swapped", graph).row(platform)
    if row.verdict in CALM:
        return ShownDamage(None)
    if not row.finding:
        return None
    damage = damage_of(
        row.word, row.status, special=row.verdict == "exceptional" and _is_special(graph, context.tensors)
    )
    return ShownDamage(damage, stage_at_fault(context, graph, row).stage, row.signature)


def _is_special(graph: Graph, tensors: TensorStore | None) -> bool:
    """Whether an input of the graph holds NaN or infinity."""
    return not all(np.isfinite(array).all() for array in materialise_all(graph, tensors))
