"""Reduces what an upgrade changes: one script for each distinct change, run with both versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mindgap.findings.causes.key import CauseKey, cause_key_of_row
from mindgap.findings.reduction.files import Summary, write_finding
from mindgap.findings.reduction.finding import reduce_finding
from mindgap.findings.reduction.reducer import ReductionLimits
from mindgap.graph import Graph, MindgapError
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Row
from mindgap.run.failure_signature import signature
from mindgap_diagnosis.versions.upgrade import TO_LOOK_AT, Change, PlatformUpgrade

#: The changes that are reduced.
REDUCED: Final[frozenset[Change]] = frozenset((*TO_LOOK_AT, "better"))


@dataclass(frozen=True, slots=True)
class ReducedChange:
    """A change that some models share, as far as rows tell that were not reduced.

    `models`: the first one was reduced. `summary`: of the reduced finding, None where there is none; `reason`: why.
    """

    platform: PlatformName
    change: Change
    models: tuple[str, ...]
    summary: Summary | None
    reason: str = ""


def reduce_changes(
    upgraded: PlatformUpgrade, graph: Callable[[str], Graph], context: RunContext, out: Path,
    limits: ReductionLimits | None = None,
) -> Iterator[ReducedChange]:  # fmt: skip
    """Reduces one model of each distinct change of a platform, and writes its files into `out`.

    `graph`: the graph of a model. `context`: runs both versions and more; its reference is not looked at.
    """
    groups: dict[tuple[CauseKey, str], list[Row]] = {}
    changes = dict(zip((row.model for row in upgraded.report.rows), upgraded.changes, strict=True))
    # How the old version fails is not part of a row.
    failures = {model.name: signature(model.reference_message) for model in upgraded.report.models}
    for row in upgraded.report.rows:
        if changes[row.model] in REDUCED:
            for fault in row.by_fault:
                groups.setdefault((cause_key_of_row(fault), failures.get(fault.model, "")), []).append(fault)
    for faults in groups.values():
        models = tuple(dict.fromkeys(fault.model for fault in faults))
        change = changes[models[0]]
        try:
            summary = _reduced(upgraded, graph(models[0]), faults[0], context, out, limits)
            yield ReducedChange(upgraded.after, change, models, summary)
        except MindgapError as error:
            yield ReducedChange(upgraded.after, change, models, None, str(error))


def _reduced(
    upgraded: PlatformUpgrade, graph: Graph, fault: Row, context: RunContext, out: Path, limits: ReductionLimits | None
) -> Summary:
    """Reduces one fault, with the version that is at fault as the platform and the other one as the reference."""
    seen = f"with {upgraded.after}, compared with {upgraded.before}, in {fault.model}"
    mends = fault.blame == "reference"
    reference = upgraded.after if mends else upgraded.before
    context = replace(context, settings=replace(context.settings, reference=reference))
    if mends:
        fault = _old_version_row(upgraded, graph, fault, context)
    return write_finding(out, reduce_finding(context, graph, fault, limits), seen, context.tensors)


def _old_version_row(upgraded: PlatformUpgrade, graph: Graph, fault: Row, context: RunContext) -> Row:
    """The same fault in a comparison of the old version with the new one. Raises `MindgapError` where it is not
    found there."""
    row = GraphComparison(context, fault.model, graph).row(upgraded.before)
    findings: Sequence[Row] = [each for each in row.by_fault if each.finding and each.blame == "platform"]
    wanted = fault.culprit.op if fault.culprit is not None else ""
    same = [each for each in findings if each.culprit is not None and each.culprit.op == wanted]
    if not findings:
        raise MindgapError(f"{upgraded.before} against {upgraded.after} is {row.word}: nothing to reduce")
    return (same or findings)[0]
