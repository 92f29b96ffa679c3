"""Measures what a campaign on a Ray cluster costs: `python benchmarks/ray_cost.py [CATALOGUE] [--workers 1 2 4]`.

The cluster is on this machine, on its loopback interface: seconds are those of Ray and mindgap, without a network.

    bytes        of what the tasks of a block take and give, packed as they are sent, for each block and row: graphs
                 of CATALOGUE (else of tests/mindgap_campaign/campaign/small_source.py), judged on this machine
    empty block  from the commit of one block without cases to that of the next, and CPU of the driver for it
    throughput   rows a second with 1, 2 and 4 nodes, each of which has the reference and the platform, and one worker
                 at a time; with more nodes than cores it shows that nothing is lost
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests" / "mindgap_campaign" / "campaign"
sys.path.insert(0, str(TESTS))

from ray_cluster import cluster_of  # noqa: E402
from small_source import FirstCases, Small, plan_text  # noqa: E402

from mindgap.graph import default_tensor_store  # noqa: E402
from mindgap.results.store import Store  # noqa: E402
from mindgap.results.support_answers import SupportTable  # noqa: E402
from mindgap.run.identity import bytes_of, digest_of  # noqa: E402
from mindgap.run.message import job_frame  # noqa: E402
from mindgap.run.outcome import Job, Outcome  # noqa: E402
from mindgap.run.pool import WorkerPool  # noqa: E402
from mindgap_campaign.campaign.cases.case import BLOCK, CaseSourceFactory, Shard  # noqa: E402
from mindgap_campaign.campaign.cluster.judged_block import judge_block  # noqa: E402
from mindgap_campaign.campaign.cluster.messages import (  # noqa: E402
    BlockChoice,
    BlockOutline,
    CasesRun,
    ClusterSetup,
    SessionTerms,
)
from mindgap_campaign.campaign.cluster_session import RayCluster  # noqa: E402
from mindgap_campaign.campaign.judging.judge_process import judge_limits, judge_processes  # noqa: E402
from mindgap_campaign.campaign.plan import Plan, parse_plan  # noqa: E402
from mindgap_campaign.campaign.schedule.case_runner import PoolRunner  # noqa: E402
from mindgap_campaign.campaign.schedule.eligibility import Eligibility  # noqa: E402
from mindgap_campaign.campaign.schedule.selection import BlockSelector, together  # noqa: E402
from mindgap_campaign.campaign.session import RunOptions, begin  # noqa: E402
from mindgap_campaign.campaign.state.steps import StepTracker  # noqa: E402
from mindgap_campaign.campaign.variant_source_factory import VariantSourceFactory  # noqa: E402
from mindgap_campaign.cluster.messages import pack  # noqa: E402


def between_commits(out: Path) -> float:
    """Seconds from the first commit to the last: without the start of Ray's processes."""
    moments = [file.stat().st_mtime for file in out.glob("commits/*/*.rows")]
    return max(moments) - min(moments)


class Moments(StepTracker):
    """Notes how long the step took in which cases ran."""

    def __init__(self) -> None:
        super().__init__()
        self.began = self.seconds = self.cpu = 0.0

    def run(self, progress: Any) -> None:
        super().run(progress)
        self.began, self.cpu = time.monotonic(), time.process_time()

    def step(self, name: str, total: int = 0) -> None:
        super().step(name, total)
        if name.startswith("writing"):
            self.seconds, self.cpu = time.monotonic() - self.began, time.process_time() - self.cpu


def print_bytes(asked: argparse.Namespace, plan: Plan, source: CaseSourceFactory, folder: Path) -> None:
    """Prints what the tasks of the first block take and give."""
    store = Store(folder)
    opened = source.begin(plan, folder)
    cases = opened.block(0)[: asked.cases]
    selection = BlockSelector(plan, list(plan.platforms)).choose(0, cases)
    orders = {name: tuple(case.index for case in order) for name, order in selection.orders.items()}
    limits = judge_limits(plan, default_tensor_store())
    names = [plan.reference, *plan.platforms]
    jobs: list[tuple[int, int]] = []
    with WorkerPool(names, tensors=limits.tensors, busy=2, memory_limit_bytes=limits.memory_bytes) as pool:
        runner = PoolRunner(plan, pool)
        outcomes = {(name, case.index): runner.run(name, case) for name in names for case in together(cases)}

        def run(job: Job) -> Outcome:
            outcome = pool.run(job)
            jobs.append((size(job_frame(job, digest_of(job.graph), bytes_of(job.graph))), size(outcome)))
            return outcome

        descriptions = {name: pool.describe(name) for name in names}
        setup = ClusterSetup(
            "measured", plan, "measured", asked.shard, str(folder), source, files(source, folder), "", ""
        )
        terms = SessionTerms(tuple(plan.platforms), {}, descriptions, Eligibility(SupportTable({}, {})))
        choice = BlockChoice(0, 0, orders, tuple(selection.features), {}, {}, {})
        with judge_processes(2, limits, run, pool.describe) as judges:
            judged = judge_block(setup, terms, judges, choice, cases, outcomes)
    rows = len(cases) * len(plan.platforms)
    committed = sum(file.stat().st_size for file in folder.rglob("*.parquet") if file.name != "pool.parquet")
    parts = {
        "outline, given": size(BlockOutline([case.outline for case in cases], {})),
        "cases, taken (each platform)": size(("measured", "run_cases", names[1], 0, 0, orders[names[1]], None)),
        "cases, given (each platform)": size(CasesRun(names[1], orders[names[1]], 1.0)),
        "judging, taken": size(("measured", "judge", choice)),
        "judging, given": size(judged),
    }
    print(f"bytes of a block of {len(cases)} cases, {sum(len(case.data) for case in cases):,} of graphs, {rows} rows:")
    for what, count in parts.items():
        print(f"  {what:32}{count:>12,}  {count / rows:>10,.1f} a row")
    for name in names:
        count = size([outcomes[name, case.index] for case in cases])
        print(f"  {f'outcomes of {name}':32}{count:>12,}  {count / len(cases):>10,.1f} a case")
    sent, received = sum(each for each, _ in jobs), sum(each for _, each in jobs)
    each = (sent + received) / rows
    print(f"  {f'jobs of judges: {len(jobs)}':32}{sent:>12,} sent, {received:,} received: {each:,.1f} a row")
    twice = "a row (twice: the commit, the segments)"
    print(f"  {'rows in the store':32}{committed:>12,}  {committed / rows:>10,.1f} {twice}")
    print(f"  {'session, to each node':32}{size(setup) + size(terms):>12,}")
    print(f"  words: {words(store)}")


def words(store: Store) -> dict[str, int]:
    return {row["word"]: row["n"] for row in store.rows("SELECT word, count(*) AS n FROM verdicts GROUP BY word")}


def files(source: CaseSourceFactory, folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in source.files}


def size(thing: Any) -> int:
    return len(pack(thing))


def session(plan: Plan, text: str, source: CaseSourceFactory, out: Path, nodes: int) -> tuple[Moments, Any]:
    """Runs a campaign on so many nodes."""
    resources = {
        str(name): 1.0 for name in dict.fromkeys(each.device_mode for each in [plan.reference, *plan.platforms])
    }
    steps = Moments()
    with cluster_of([resources] * nodes) as cluster:
        return steps, begin(
            plan, text, out, source, options=RunOptions(jobs=1, steps=steps), place=RayCluster(cluster.address)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", nargs="?", type=Path)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--cases", type=int, default=100, help="of a block")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=20, help="nodes of a graph's size, with CATALOGUE")
    parser.add_argument("--reference", default="cpu/eager")
    parser.add_argument("--platform", default="onnxruntime/cpu@threads=1")
    parser.add_argument("--empty", type=int, default=40, help="empty blocks")
    asked = parser.parse_args()
    asked.shard = Shard()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    inner: CaseSourceFactory = VariantSourceFactory() if asked.catalogue else Small(rare=False)
    where = asked.catalogue.resolve() if asked.catalogue else "none"

    def plan_of(blocks: int) -> tuple[Plan, str]:
        top = f'reference = "{asked.reference}"'
        text = plan_text(blocks * BLOCK, {asked.platform: ""}, top=top).replace('"none"', f'"{where}"')
        text = text.replace("[platforms]", f"sizes = [ {{nodes = {asked.nodes}, share = 1.0}} ]\n[platforms]")
        return parse_plan(text, "plan"), text

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ.setdefault("MINDGAP_HOME", f"{scratch}/home")
        print_bytes(asked, plan_of(1)[0], inner, folder / "bytes")
        if asked.empty:
            plan, text = plan_of(asked.empty + 1)
            steps, result = session(plan, text, FirstCases(inner, 1, 0), folder / "empty", 1)
            assert result.state == "finished", result.state
            print(
                f"empty block: {1000 * between_commits(folder / 'empty') / asked.empty:.1f} ms, the driver takes "
                f"{1000 * steps.cpu / asked.empty:.1f} ms of CPU ({asked.empty} blocks, one node, {load()})"
            )
        for count in asked.workers:
            plan, text = plan_of(asked.blocks)
            source = FirstCases(inner, asked.cases, asked.cases)
            steps, result = session(plan, text, source, folder / f"workers{count}", count)
            rows, seconds = asked.cases * (asked.blocks - 1), between_commits(folder / f"workers{count}")
            assert result.totals.rows == asked.cases * asked.blocks, result.totals
            print(
                f"{count} workers: {rows} rows in {seconds:.1f} s: {rows / seconds:.1f} rows/s, driver "
                f"{1000 * steps.cpu / asked.blocks:.1f} ms of CPU a block of {asked.cases}, {load()}"
            )


def load() -> str:
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"


if __name__ == "__main__":
    main()
