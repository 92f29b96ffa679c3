"""Reduces the findings of a campaign: one case of each group, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mindgap.campaign.results.findings import FindingGroup, findings_of, rows_of_case
from mindgap.campaign.results.script import graph_of
from mindgap.campaign.state.directory import CampaignDirectory
from mindgap.compare.verdict import FINDINGS
from mindgap.graph import MindgapError, TensorStore, default_tensor_store
from mindgap.pipeline.comparison import GraphComparison, RunContext
from mindgap.reduction import ReductionLimits
from mindgap.reduction.files import Summary, read_summary, write_finding
from mindgap.reduction.finding import reduce_finding
from mindgap.results.settings import RunSettings
from mindgap.run.pool import WorkerPool

#: A child process may take so many times its limit, and so many seconds more, for starting and for the scripts.
_PATIENCE, _START_S = 2.0, 300.0


@dataclass(frozen=True, slots=True)
class GroupReduction:
    """A group and the summary of its reduced case; without one, `reason` tells why there is none."""

    group: FindingGroup
    summary: Summary | None
    reason: str = ""


def reduce_case(
    directory: CampaignDirectory, case: str, platform: str, out: Path, limits: ReductionLimits, seen: str = "",
    tensors: TensorStore | None = None,
) -> Summary:  # fmt: skip
    """Runs a case again on one platform and reduces what it finds. Raises `MindgapError` where it finds nothing."""
    (record,) = rows_of_case(directory, case, platform)
    graph = graph_of(directory, record)
    tensors = tensors or default_tensor_store()
    plan = directory.plan
    settings = RunSettings(plan.reference, deadline_s=plan.limits.deadline_s, repeat=plan.limits.repeat)
    with WorkerPool([plan.reference, platform], tensors=tensors, busy=1) as pool:
        context = RunContext(pool.run, settings, tensors, pool.describe)
        row = GraphComparison(context, case, graph).row(platform)
        return write_finding(out, reduce_finding(context, graph, row, limits), len(graph.nodes), seen)


def reduce_groups(
    directory: CampaignDirectory, out: Path, limits: ReductionLimits, *, words: Sequence[str] = (), platform: str = "",
    jobs: int = 1, progress: Callable[[GroupReduction], None] | None = None,
) -> list[GroupReduction]:  # fmt: skip
    """One reduction for each group of findings, `jobs` at a time. A reduction that crashes or hangs costs its group.

    Raises `MindgapError` where there is no finding.
    """
    groups = findings_of(directory, words, platform)
    if not groups:
        raise MindgapError(f"{directory.path} has no such finding: there is nothing to reduce")

    def one(group: FindingGroup) -> GroupReduction:
        made = _in_child(directory, group, out, limits)
        if progress is not None:
            progress(made)
        return made

    with ThreadPoolExecutor(jobs, "mindgap-reduce") as threads:
        return list(threads.map(one, groups))


def _in_child(directory: CampaignDirectory, group: FindingGroup, out: Path, limits: ReductionLimits) -> GroupReduction:
    command = [
        sys.executable, "-m", "mindgap", "campaign", "reduce", str(directory.path), "--out", str(out),
        "--case", group.case, "-p", group.platform, "--checks", str(limits.checks), "--seconds", str(limits.seconds),
        "--seen", f"{group.count} of the campaign's rows",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE * limits.seconds + _START_S
        )
    except subprocess.TimeoutExpired:
        return GroupReduction(group, None, "the reduction took too long")
    if done.returncode != 1:
        last = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
        return GroupReduction(group, None, last)
    return GroupReduction(group, read_summary(Path(done.stdout.strip().splitlines()[-1])))


def index_text(reductions: Sequence[GroupReduction]) -> str:
    """A Markdown page: a row for each distinct cause, the worst verdict and the most frequent first.

    Groups whose reduced findings have the same cause are one row. What could not be reduced is listed below.
    """
    causes: dict[tuple[object, ...], list[tuple[int, Summary]]] = {}
    failed = [each for each in reductions if each.summary is None]
    for each in reductions:
        if each.summary is not None:
            causes.setdefault(each.summary.cause, []).append((each.group.count, each.summary))
    rows = [
        (sum(count for count, _ in found), min((one for _, one in found), key=_preference)) for found in causes.values()
    ]
    rows.sort(key=lambda row: (_rank(row[1].verdict), -row[0]))
    lines = [
        f"# {len(causes)} causes of {sum(each.group.count for each in reductions)} findings",
        "",
        "| rows | cause | operators | before | script | verified |",
        "|---|---|---|---|---|---|",
        *(
            f"| {count} | {_cell(one.title)} | {len(one.operators)} | {one.nodes} "
            f"| [{one.script}]({one.script}) | {'yes' if one.verified else 'NO'} |"
            for count, one in rows
        ),
    ]
    if failed:
        lines += ["", f"## Not reduced: {len(failed)} groups", ""]
        lines += ["| rows | case | platform | verdict | culprit | reason |", "|---|---|---|---|---|---|"]
    for each in failed:
        group = each.group
        cells = (str(group.count), group.case, group.platform, group.word, group.culprit, each.reason)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def _preference(summary: Summary) -> tuple[bool, bool, int]:
    """Verified scripts first, then short ones, then those of few operators."""
    return not summary.verified, not summary.short, len(summary.operators)


def _rank(verdict: str) -> int:
    return FINDINGS.index(verdict) if verdict in FINDINGS else len(FINDINGS)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:160]
