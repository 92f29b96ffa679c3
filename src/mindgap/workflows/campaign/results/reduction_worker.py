"""Process that reduces cases of one campaign, for `mindgap.workflows.campaign.results.reduce`.

A case that crashes or hangs the process costs that case. The workers of platforms live from case to case.

parent → worker   reduce    a case, its platform, where it was seen
worker → parent   reduced   the name of the summary's file
                  failed    why there is none
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from mindgap.findings.reduction import ReductionLimits
from mindgap.findings.reduction.files import Summary, write_finding
from mindgap.findings.reduction.finding import reduce_finding
from mindgap.graph import MindgapError, TensorStore, default_tensor_store
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.run.channel import FrameReader, send_frame
from mindgap.run.cpu import seconds_of
from mindgap.run.pool import WorkerPool
from mindgap.run.worker_setup import claim_channel, prepare_to_die, serve_until_hangup
from mindgap.workflows.campaign.results.findings import rows_of_case
from mindgap.workflows.campaign.results.script import graph_of
from mindgap.workflows.campaign.state.directory import CampaignDirectory, open_directory

#: Stage variants of a platform are asked once or twice for a case: their workers are released soon.
_IDLE_S = 60.0


def reduce_case(
    directory: CampaignDirectory, case: str, platform: str, out: Path, limits: ReductionLimits, seen: str,
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
    return write_finding(out, reduce_finding(context, graph, row, limits), seen)


def new_pool(directory: CampaignDirectory, tensors: TensorStore) -> WorkerPool:
    """A pool for reductions of a campaign: it adds each platform that a reduction asks for."""
    return WorkerPool([directory.plan.reference], tensors=tensors, busy=1, idle_s=_IDLE_S, grows=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Serves requests until the parent closes the channel."""
    parser = argparse.ArgumentParser(prog="mindgap.workflows.campaign.results.reduction_worker", description=__doc__)
    parser.add_argument("--parent", type=int, help="the process to die with")
    parser.add_argument("--directory", type=Path, required=True, help="of the campaign")
    parser.add_argument("--out", type=Path, required=True, help="where scripts and reports go")
    parser.add_argument("--checks", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--stage", type=int, required=True, help="1: look for the stage at fault")
    parser.add_argument("--condition", type=float, required=True, help="seconds to look for what triggers the fault")
    arguments = parser.parse_args(argv)
    requests, answers = claim_channel()
    prepare_to_die(arguments.parent, requests, None)
    limits = ReductionLimits(arguments.checks, arguments.seconds, bool(arguments.stage), arguments.condition)
    directory, tensors = open_directory(arguments.directory), default_tensor_store()
    with new_pool(directory, tensors) as pool:

        def serve() -> None:
            reader = FrameReader(requests)
            send_frame(answers, {"kind": "ready"})
            while True:
                asked = reader.next().header
                before = _cpu_seconds()
                try:
                    summary = reduce_case(
                        directory, asked["case"], asked["platform"], arguments.out, limits, asked["seen"], tensors, pool
                    )
                    answer = {"kind": "reduced", "file": str(Path(summary.script).with_suffix(".json"))}
                except MindgapError as error:
                    answer = {"kind": "failed", "reason": str(error)}
                send_frame(answers, {**answer, "cpu_seconds": _cpu_seconds() - before})

        serve_until_hangup(serve)


def _cpu_seconds() -> float:
    """Of this process and all that it has started."""
    own = psutil.Process()
    return seconds_of(own, own.children(recursive=True))


if __name__ == "__main__":
    sys.exit(main())
