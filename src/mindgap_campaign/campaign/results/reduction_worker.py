"""Reduces findings of one campaign in a worker process: a service of `mindgap.run.server`.

A case that crashes or hangs the process costs that one. The workers of platforms live from case to case.

parent → worker   reduce    a case, its platform, where it was seen
worker → parent   reduced   the name of the summary's file
                  failed    why there is none
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from mindgap.findings.reduction import ReductionLimits
from mindgap.findings.reduction.files import Summary, write_finding
from mindgap.findings.reduction.finding import reduce_finding
from mindgap.graph import MindgapError, TensorStore, default_tensor_store
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import PlatformName, recorded
from mindgap.run.channel import Frame
from mindgap.run.cpu import seconds_of
from mindgap.run.pool import WorkerPool
from mindgap.run.server import Answer, Channel, Service
from mindgap_campaign.campaign.results.case_file import graph_of
from mindgap_campaign.campaign.results.findings import rows_of_case
from mindgap_campaign.campaign.state.directory import CampaignDirectory, open_directory

#: Stage variants of a platform run once or twice for a case: their workers are released soon.
_IDLE_S = 60.0


def reduce_case(
    directory: CampaignDirectory, case: str, platform: PlatformName, out: Path, limits: ReductionLimits, seen: str,
    tensors: TensorStore, pool: WorkerPool,
) -> Summary:  # fmt: skip
    """Runs a case again on one platform and reduces what it finds.

    `seen`: how often and where the finding was met. `pool`: of `new_pool`, shared by several cases. Raises
    `MindgapError` where it finds nothing.
    """
    (record,) = rows_of_case(directory, case, platform)
    graph = graph_of(directory, record)
    context = RunContext(pool.run, replace(directory.plan.run_settings, trace=True), tensors, pool.describe)
    row = GraphComparison(context, case, graph).row(platform)
    return write_finding(out, reduce_finding(context, graph, row, limits), seen, tensors)


def new_pool(directory: CampaignDirectory, tensors: TensorStore) -> WorkerPool:
    """A pool for reductions of a campaign: it adds each platform that a reduction asks for."""
    return WorkerPool([directory.plan.reference], tensors=tensors, busy=1, idle_s=_IDLE_S, grows=True)


def reduction_service(_: Channel, directory: str, out: str, limits: Mapping[str, Any] | None = None) -> Service:
    """Reduces one case at a time. `out`: where scripts and reports go. `limits`: fields of `ReductionLimits`."""
    campaign, tensors = open_directory(directory), default_tensor_store()
    pool, within = new_pool(campaign, tensors), ReductionLimits(**limits or {})

    def answer(frame: Frame) -> Answer:
        request = frame.header
        before = _cpu_seconds()
        try:
            summary = reduce_case(
                campaign, request["case"], recorded(request["platform"]), Path(out), within, request["seen"],
                tensors, pool,
            )  # fmt: skip
            header = {"kind": "reduced", "file": str(Path(summary.script).with_suffix(".json"))}
        except MindgapError as error:
            header = {"kind": "failed", "message": str(error)}
        return {**header, "cpu_seconds": _cpu_seconds() - before}, ()

    return Service({"reduce": answer})


def _cpu_seconds() -> float:
    """Of this process and all that it has started."""
    own = psutil.Process()
    return seconds_of(own, own.children(recursive=True))
