"""Reduces the findings of a campaign: one case of each group, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from mindgap.campaign.results.findings import FindingGroup, findings_of, rows_of_case
from mindgap.campaign.results.script import graph_of
from mindgap.campaign.state.directory import CampaignDirectory
from mindgap.causes import Cause, ReducedGroup, causes_of
from mindgap.graph import MindgapError, TensorStore, default_tensor_store
from mindgap.pipeline.comparison import GraphComparison, RunContext
from mindgap.reduction import ReductionLimits
from mindgap.reduction.files import Summary, read_summary, write_finding
from mindgap.reduction.finding import reduce_finding
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
    settings = replace(plan.run_settings, trace=True)
    with WorkerPool([plan.reference, platform], tensors=tensors, busy=1) as pool:
        context = RunContext(pool.run, settings, tensors, pool.describe)
        row = GraphComparison(context, case, graph).row(platform)
        return write_finding(out, reduce_finding(context, graph, row, limits), seen)


def reduce_groups(
    directory: CampaignDirectory, out: Path, limits: ReductionLimits, *, words: Sequence[str] = (), platform: str = "",
    most: int | None = None, jobs: int = 1, progress: Callable[[GroupReduction], None] | None = None,
) -> list[GroupReduction]:  # fmt: skip
    """One reduction for each group of findings, `jobs` at a time. A reduction that crashes or hangs costs its group.

    `most`: see `worst_groups`. Raises `MindgapError` where there is
    no finding.
    """
    groups = worst_groups(findings_of(directory, words, platform), most)
    if not groups:
        raise MindgapError(f"{directory.path} has no such finding: there is nothing to reduce")

    def one(group: FindingGroup) -> GroupReduction:
        made = _in_child(directory, group, out, limits)
        if progress is not None:
            progress(made)
        return made

    with ThreadPoolExecutor(jobs, "mindgap-reduce") as threads:
        return list(threads.map(one, groups))


def worst_groups(groups: Sequence[FindingGroup], most: int | None) -> list[FindingGroup]:
    """At most `most` groups: wrong results before failures, which nobody overlooks, and the most frequent first.

    None: all, as they are.
    """
    if most is None:
        return list(groups)
    return sorted(groups, key=lambda group: (group.word.endswith("failed"), -group.count))[:most]


def _in_child(directory: CampaignDirectory, group: FindingGroup, out: Path, limits: ReductionLimits) -> GroupReduction:
    command = [
        sys.executable, "-m", "mindgap", "campaign", "reduce", str(directory.path), "--out", str(out),
        "--case", group.case, "-p", group.platform, "--checks", str(limits.checks), "--seconds", str(limits.seconds),
        "--seen", f"{group.count} of the campaign's rows", *([] if limits.stage else ["--no-stage"]),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE * limits.seconds + _START_S
        )
    except subprocess.TimeoutExpired:
        return GroupReduction(group, None, "the reduction took too long")
    if done.returncode != 1 or not done.stdout.strip():
        last = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
        return GroupReduction(group, None, last.removeprefix("mindgap: "))
    return GroupReduction(group, read_summary(Path(done.stdout.strip().splitlines()[-1])))


def causes_of_groups(reductions: Sequence[GroupReduction]) -> tuple[Cause, ...]:
    """The distinct causes of the reduced groups, worst first."""
    return causes_of(
        ReducedGroup(each.summary, each.group.count, each.group.cases)
        for each in reductions
        if each.summary is not None
    )


def complete_platforms(ran: Iterable[str], reductions: Sequence[GroupReduction]) -> set[str]:
    """The platforms of which every group was reduced, so that all their causes are there. `ran`: those asked for."""
    return set(ran) - {each.group.platform for each in reductions if each.summary is None}


def index_text(causes: Sequence[Cause], reductions: Sequence[GroupReduction]) -> str:
    """A Markdown page: a row for each cause, in the given order, and below what could not be reduced."""
    lines = [
        f"# {len(causes)} causes of {sum(each.group.count for each in reductions)} findings",
        "",
        "| rows | severity | state | cause | class | stage | operators | upstream | script | verified |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cause in causes:
        best = cause.findings[0]
        state, count = cause.state or "–", str(len(best.operators))
        cells = (
            *(str(cause.rows), cause.severity, state, cause.title, cause.kind, cause.stage, count),
            cause.upstream_text,
        )
        link, verified = f"[{best.script}]({best.script})", "yes" if cause.verified else "NO"
        lines.append(f"| {' | '.join(map(_cell, cells))} | {link} | {verified} |")
    failed = [each for each in reductions if each.summary is None]
    if failed:
        lines += ["", f"## Not reduced: {len(failed)} groups", ""]
        lines += ["| rows | case | platform | verdict | culprit | reason |", "|---|---|---|---|---|---|"]
    for each in failed:
        group = each.group
        cells = (str(group.count), group.case, group.platform, group.word, group.culprit, each.reason)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:160]
