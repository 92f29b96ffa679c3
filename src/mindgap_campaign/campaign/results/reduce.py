"""Reduces the findings of a campaign: one case of each group, in worker processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from mindgap.findings.causes import Cause, ReducedGroup, causes_of
from mindgap.findings.reduction import ReductionLimits
from mindgap.findings.reduction.files import Summary, read_summary
from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import WorkerClient, WorkerStart
from mindgap_campaign.campaign.results.findings import FindingGroup, findings_of
from mindgap_campaign.campaign.state.directory import CampaignDirectory

#: A case may take so many times its limit, and so many seconds more: for the stage at fault and for the scripts.
_PATIENCE: Final = 2.0
_MORE_S: Final = 300.0
#: So many cases of a group are tried until one is reduced.
_CASES: Final = 3
#: Reduces findings of a campaign.
SERVICE: Final = "mindgap_campaign.campaign.results.reduction_worker:reduction_service"


@dataclass(frozen=True, slots=True)
class GroupReduction:
    """A group and the summary of its reduced case; without one, `reason` is why there is none.

    `cpu_seconds`: processor time of all cases that were tried, with that of platforms and scripts.
    """

    group: FindingGroup
    summary: Summary | None
    reason: str = ""
    cpu_seconds: float = 0.0


def reduce_groups(
    directory: CampaignDirectory, out: Path, limits: ReductionLimits, *, words: Sequence[str] = (), platform: str = "",
    cases: Sequence[str] = (), most: int | None = None, jobs: int = 1,
    progress: Callable[[GroupReduction], None] | None = None,
) -> list[GroupReduction]:  # fmt: skip
    """One reduction for each group of findings, `jobs` at a time. A reduction that crashes or hangs costs its case.

    `cases`: only their groups, and of each group the first of them. `most`: see `worst_groups`. `progress`: called
    from several threads. Raises `MindgapError` where there is no finding.
    """
    groups = worst_groups(groups_with(findings_of(directory, words, platform), cases), most)
    if not groups:
        raise MindgapError(f"{directory.path} has no such finding: there is nothing to reduce")
    queue = _GroupQueue(groups)
    done: dict[int, GroupReduction] = {}
    clients: list[WorkerClient] = []

    def serve() -> None:
        options = {"directory": str(directory.path), "out": str(out), "limits": asdict(limits)}
        client = WorkerClient(WorkerStart(SERVICE, forks=True), options, RequestLimits(_MORE_S))
        clients.append(client)
        try:
            last: PlatformName | None = None
            while (index := queue.next(last)) is not None:
                last = groups[index].platform
                done[index] = _reduced(client, groups[index], out, limits, queue)
                if progress is not None:
                    progress(done[index])
        finally:
            client.close()

    with ThreadPoolExecutor(jobs, "mindgap-reduce") as threads:
        try:
            for each in [threads.submit(serve) for _ in range(min(jobs, len(groups)))]:
                each.result()
        except BaseException:
            # An interrupt: what runs now would be waited for.
            queue.close()
            for client in clients:
                client.kill()
            raise
    return [done[index] for index in range(len(groups))]


class _GroupQueue:
    """Groups that wait. A thread gets those of one platform after the other: that platform's worker runs already."""

    def __init__(self, groups: Sequence[FindingGroup]) -> None:
        self._waiting = {index: group.platform for index, group in enumerate(groups)}
        self._lock = threading.Lock()
        #: Nothing more is to be begun.
        self.closed = False

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._waiting.clear()

    def next(self, platform: PlatformName | None) -> int | None:
        """The number of the next group, of `platform` where one waits; None where none waits."""
        with self._lock:
            index = next((i for i, other in self._waiting.items() if other == platform), None)
            if index is None:
                index = next(iter(self._waiting), None)
            if index is not None:
                del self._waiting[index]
            return index


def groups_with(groups: Sequence[FindingGroup], cases: Sequence[str]) -> list[FindingGroup]:
    """The groups that hold one of `cases`, with no other cases; without `cases` all, as they are.

    Raises `MindgapError` for a case that is in no group.
    """
    if not cases:
        return list(groups)
    for case in cases:
        if not any(case in group.cases for group in groups):
            raise MindgapError(f"--case {case}: no such finding")
    kept = [(group, tuple(case for case in group.cases if case in cases)) for group in groups]
    return [replace(group, case=mine[0], cases=mine) for group, mine in kept if mine]


def worst_groups(groups: Sequence[FindingGroup], most: int | None) -> list[FindingGroup]:
    """At most `most` groups: wrong results before failures, which users do not overlook, and the most frequent first.

    `most` None: all, as they are.
    """
    if most is None:
        return list(groups)
    return sorted(groups, key=lambda group: (group.word.endswith("failed"), -group.count))[:most]


def _reduced(
    client: WorkerClient, group: FindingGroup, out: Path, limits: ReductionLimits, queue: _GroupQueue
) -> GroupReduction:
    """Reduces the first of the group's cases that can be reduced."""
    reasons: list[str] = []
    spent = 0.0
    for case in group.cases[:_CASES]:
        if queue.closed:
            break
        request = {
            "kind": "reduce", "case": case, "platform": group.platform,
            "seen": f"{group.count} of the campaign's rows",
        }  # fmt: skip
        try:
            answer = client.ask(request, (), RequestLimits(_PATIENCE * limits.seconds + _MORE_S)).header
        except WorkerFailed as failed:
            last = failed.tail.splitlines()[-1:] if failed.fault == "crash" else []
            reasons.append(f"{case}: {': '.join([failed.message, *last])}")
            continue
        spent += answer["cpu_seconds"]
        if answer["kind"] == "reduced":
            return GroupReduction(group, read_summary(out / answer["file"]), cpu_seconds=spent)
        reasons.append(f"{case}: {answer['message'].removeprefix(f'{case} on {group.platform}: ')}")
    return GroupReduction(group, None, "; ".join(dict.fromkeys(reasons)), spent)


def causes_of_groups(reductions: Sequence[GroupReduction]) -> tuple[Cause, ...]:
    """The distinct causes of the reduced groups, worst first."""
    groups = [
        ReducedGroup(each.summary, each.group.count, each.group.cases)
        for each in reductions
        if each.summary is not None
    ]
    return causes_of(groups)


def complete_platforms(ran: Iterable[PlatformName], reductions: Sequence[GroupReduction]) -> set[PlatformName]:
    """The platforms of which every group was reduced, so that all their causes are there. `ran`: the requested ones."""
    return set(ran) - {each.group.platform for each in reductions if each.summary is None}


def index_text(causes: Sequence[Cause], reductions: Sequence[GroupReduction]) -> str:
    """A Markdown page: a row for each cause, in the given order, and below what could not be reduced."""
    lines = [
        f"# {len(causes)} causes of {sum(each.group.count for each in reductions)} findings",
        "",
        "| rows | severity | state | cause | platforms | class | stage | operators | upstream | script | verified |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cause in causes:
        best = cause.findings[0]
        state, count = cause.state or "–", str(len(best.operators))
        cells = (
            *(str(cause.rows), cause.severity, state, cause.title),
            *(", ".join(cause.platforms), cause.kind, cause.stage, count),
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
