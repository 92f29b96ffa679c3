"""Groups reduced findings by root cause and orders the causes, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.findings.causes.cause import SEVERITIES, Cause
from mindgap.findings.causes.condition_use import use_of_condition
from mindgap.findings.causes.key import (
    EXPORT_STAGES,
    EXPORTED,
    EXPORTER,
    CauseKey,
    cause_key_of_row,
    cause_key_of_summary,
    operators_at_fault,
    reads_onnx,
    summary_of_row,
)
from mindgap.findings.causes.packets import function_of
from mindgap.findings.causes.severity import DAMAGES, ConditionUse, severity_of
from mindgap.findings.causes.taxonomy import class_of
from mindgap.findings.reduction.files import Summary
from mindgap.graph.compare.culprit import DtypePolicy
from mindgap.results.rows import Row

#: So many functions that lose precision in one dtype on one platform are taken as a policy of the platform.
_MANY: Final = 3
#: Functions that a title lists besides those of the finding that is shown.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class ReducedGroup:
    """A reduced finding, and the findings that it stands for.

    `rows`: how many. `cases`: names of variants. `use`: which calls meet its condition; None where that is not known.
    `key`: of a finding that was not reduced.
    """

    summary: Summary
    rows: int = 1
    cases: tuple[str, ...] = ()
    use: ConditionUse | None = None
    key: CauseKey | None = None


Clusters = dict[CauseKey, list[ReducedGroup]]


def causes_of(groups: Iterable[ReducedGroup]) -> tuple[Cause, ...]:
    """The distinct causes, by severity, then by the number of rows. Equal groups give equal causes in any order."""
    return tuple(sorted((cause_of_cluster(*pair) for pair in clusters_of(groups).items()), key=severity_order))


def clusters_of(groups: Iterable[ReducedGroup]) -> Clusters:
    """The groups by cause. Each group is in one cluster."""
    clusters: Clusters = {}
    for group in groups:
        clusters.setdefault(group.key or cause_key_of_summary(group.summary), []).append(group)
    _join_policies(clusters)
    _join_runtimes(clusters)
    _join_stages(clusters)
    _join_damages(clusters)
    return clusters


def severity_order(cause: Cause) -> tuple[object, ...]:
    """The order of a list of causes: by severity, then the damage, then the most rows."""
    return SEVERITIES.index(cause.severity), DAMAGES.index(cause.damage), -cause.rows, cause.title, cause.id


def _join_policies(clusters: Clusters) -> None:
    """Moves losses of precision to the dtype policy of their platform.

    A policy is one that the judge named, or a dtype other than float32 in which several functions lose precision.
    """
    policies = {(key.where, key.policy.declared): key for key in clusters if key.policy is not None}
    single = {key: key.where for key in clusters if key.damage == "precision" and not key.signature}
    for where in set(single.values()):
        wide = [key for key in single if key.where == where and _only_dtype(clusters[key]) == "float64"]
        if (where, "float64") not in policies and len({key.operators for key in wide}) >= _MANY:
            policies[where, "float64"] = CauseKey(where, "precision", (), "", DtypePolicy("float64").op)
    for key, where in single.items():
        policy = policies.get((where, _only_dtype(clusters[key])))
        if policy is not None:
            clusters.setdefault(policy, []).extend(clusters.pop(key))


def _only_dtype(groups: Sequence[ReducedGroup]) -> str:
    """The one float dtype of all inputs, or ""."""
    dtypes = {dtype for group in groups for dtype in group.summary.dtypes if "float" in dtype}
    return dtypes.pop() if len(dtypes) == 1 else ""


def _join_runtimes(clusters: Clusters) -> None:
    """Moves what is put down to the exporter to a runtime that shows the same without the exporter.

    Only where no stage was found, and only one runtime that reads ONNX shows it.
    """
    for key in [key for key in clusters if key.where == EXPORTER]:
        summaries = [group.summary for group in clusters[key]]
        runtimes = {each.platform.device_mode for each in summaries}
        if len(runtimes) > 1 or any(each.stage != "unknown" for each in summaries):
            continue
        own_key = replace(key, where=min(runtimes))
        for own in [k for k in (own_key, *_but_for_stage(clusters, own_key)) if k in clusters]:
            if any(not reads_onnx(group.summary.platform) for group in clusters[own]):
                clusters[own].extend(clusters.pop(key))
                break


def _join_stages(clusters: Clusters) -> None:
    """Moves findings of an unknown stage to the one stage at which the same is known."""
    for key in [key for key in clusters if not key.stage]:
        others = _but_for_stage(clusters, key)
        if len(others) == 1:
            clusters[others[0]].extend(clusters.pop(key))


def _join_damages(clusters: Clusters) -> None:
    """Moves wrong NaN and infinity to the wrong values that the same code gives: one formula gives both."""
    for key in [key for key in clusters if key.mechanism and key.damage == "special values"]:
        values = replace(key, damage="values")
        if values in clusters:
            clusters[values].extend(clusters.pop(key))


def _but_for_stage(clusters: Clusters, key: CauseKey) -> list[CauseKey]:
    """Other keys that are equal but for the stage, in a fixed order."""
    return sorted((k for k in clusters if k != key and replace(k, stage=key.stage) == key), key=lambda k: k.stage)


def _preference(group: ReducedGroup) -> tuple[object, ...]:
    """The finding to show first: verified, short, of few operators, with a stage; then the most frequent."""
    summary = group.summary
    unknown = summary.stage == "unknown"
    return not summary.verified, not summary.short, len(summary.operators), unknown, -group.rows, summary.script


def cause_of_cluster(key: CauseKey, groups: Sequence[ReducedGroup]) -> Cause:
    """The cause of a cluster: the facts of all its findings, and the words of the one that shows it best."""
    ordered = sorted(groups, key=_preference)
    findings = tuple(group.summary for group in ordered)
    first = findings[0]
    operators = tuple(sorted({op for each in findings for op in each.operators}))
    policy = key.policy is not None
    internal = all(each.internal for each in findings)
    at_fault = [operators_at_fault(each) for each in findings]
    error = _largest_error(findings)
    use = next((group.use for group in ordered if group.use is not None), None) or use_of_condition(first)
    severity, reason = severity_of(key.damage, at_fault, use=use, error=error, everywhere=policy, internal=internal)
    staged = next((each for each in findings if each.stage != "unknown"), first)
    return Cause(
        id=key.id,
        title=_title(key, findings),
        platforms=tuple(sorted({each.platform for each in findings})),
        verdict=first.verdict,
        blame=first.blame,
        damage=key.damage,
        kind=class_of(key.damage, first),
        severity=severity,
        severity_reason=reason,
        stage=staged.stage,
        stage_evidence=_evidence(key, staged, findings),
        operators=operators,
        dtypes=tuple(sorted({dtype for each in findings for dtype in each.dtypes})),
        signature=first.signature,
        rows=sum(group.rows for group in groups),
        cases=tuple(sorted({case for group in groups for case in group.cases})),
        findings=findings,
        mechanism=next((each.mechanism for each in findings if each.mechanism), ""),
        error="" if error is None else f"{error:.2g} of the right value",
        condition=use.condition or "any input" if use is not None else first.condition,
        right_for=first.right_for,
        uses="" if use is None else use.text,
    )


def _largest_error(findings: Sequence[Summary]) -> float | None:
    """The largest relative error of an element; None where that of a finding is not known."""
    known = [each.relative for each in findings if each.relative is not None]
    return max(known) if known and len(known) == len(findings) else None


def _evidence(key: CauseKey, staged: Summary, findings: Sequence[Summary]) -> tuple[str, ...]:
    runtimes = sorted({each.platform.device_mode for each in findings})
    if key.where != EXPORTER or len(runtimes) < 2:
        return staged.stage_evidence
    shared = f"{' and '.join(runtimes)} show it: both run what torch.onnx.export makes of the program."
    return (*staged.stage_evidence, shared)


def _title(key: CauseKey, findings: Sequence[Summary]) -> str:
    """The title of the finding shown, with the code at fault and how many other functions share the cause."""
    first = findings[0]
    if key.policy is not None:
        policy = f"{key.where}: {key.policy.words}"
        if key.where != EXPORTER:
            return f"{policy}, in every operator"
        # It has no policy: what was found is all that is known.
        functions = sorted({function_of(op) for each in findings for op in operators_at_fault(each)})
        return f"{policy}, in {', '.join(functions[:_NAMED])}{', …' if len(functions) > _NAMED else ''}"
    shared = len({each.platform.device_mode for each in findings}) > 1
    title = first.title
    if key.where == EXPORTER and (shared or any(each.stage in EXPORT_STAGES for each in findings)):
        title = title.replace(f"{first.platform}:", f"{EXPORTER}:", 1)
    if key.where == EXPORTED and shared:
        title = title.replace(f"{first.platform}:", f"{EXPORTED}:", 1)
    if key.damage == "shape" and key.signature:
        title += f" ({key.signature})"
    others = {function_of(op) for each in findings for op in operators_at_fault(each)}
    others -= set(map(function_of, first.operators))
    names = ", ".join(sorted(others)[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    return f"{title}; also {names}" if others else title


def causes_of_rows(rows: Iterable[Row]) -> tuple[tuple[Cause, tuple[Row, ...]], ...]:
    """The causes of findings that were not reduced, worst first, each with its rows. Other rows are left out.

    `findings` of these causes have no script. Their ids are those of `cause_key_of_row`, unless findings of several
    platforms or operators belong together.
    """
    of: dict[int, Row] = {}
    groups: list[ReducedGroup] = []
    for row in rows:
        if row.finding:
            groups.append(ReducedGroup(summary_of_row(row), 1, (row.model,), key=cause_key_of_row(row)))
            of[id(groups[-1])] = row
    causes = [
        (cause_of_cluster(key, cluster), tuple(of[id(group)] for group in cluster))
        for key, cluster in clusters_of(groups).items()
    ]
    return tuple(sorted(causes, key=lambda pair: severity_order(pair[0])))
