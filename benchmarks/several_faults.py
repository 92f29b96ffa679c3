"""Counts how many of several faults in one graph the judge names, and what one fault costs.

Usage: `python benchmarks/several_faults.py [SUBJECT…] [--faults 40] [--graphs 30]`.

Takes the faults of `mindgap selftest` that are findings by themselves, puts two and three of them with unlike culprits
into one graph, and compares `row.faults` with the culprits of the single faults. Prints, for one, two and three faults
a graph: graphs, faults, faults that were named, operators that were named without a fault, and jobs per graph.

Target: every fault is named, and no other operator. The exit status is 1 if one is missing or too many.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from mindgap.graph.tensors import TensorStore
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Job, Outcome
from mindgap_campaign.selftest.fault_cases import FaultCase, faults_for
from mindgap_campaign.selftest.subjects import graph_of
from mindgap_campaign.selftest.trial import InProcessExecutor

SUBJECTS = ("mlp", "attention", "pointwise", "convnet", "reductions")
#: These end a run, or its process.
ENDING = ("crash", "hang", "leak", "refusal", "compile_error", "runtime_error", "nondeterministic")


class Bench:
    """One subject, on a platform with any faults."""

    def __init__(self, name: str, folder: Path) -> None:
        self.tensors, self.folder, self.jobs, self.files = TensorStore(folder / "tensors"), folder, 0, itertools.count()
        self.graph = graph_of(name, 0, self.tensors)
        self.executor = InProcessExecutor(self.tensors)
        self.comparison = GraphComparison(RunContext(self.execute, RunSettings(), self.tensors), name, self.graph)

    def execute(self, job: Job) -> Outcome:
        self.jobs += 1
        return self.executor(job)

    def row(self, cases: Sequence[FaultCase]) -> Row:
        """Of a platform with the faults of all these cases."""
        file = self.folder / f"{next(self.files)}.toml"
        file.write_text("".join(case.to_toml() for case in cases))
        platform = f"faulty/eager@faults={file}"
        row = self.comparison.row(platform)
        self.executor.close(platform)
        return row


def named(row: Row) -> set[str]:
    return {each.culprit.op for each in row.faults if each.culprit is not None}


def try_subject(name: str, most_faults: int, most_graphs: int, counts: dict[int, list[int]]) -> None:
    """Adds to `counts`, by number of faults: graphs, faults, those named, operators named without a fault, jobs."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(name, Path(folder))
        cases = [case for case in faults_for(bench.graph, 1, most_faults) if case.kind not in ENDING]
        culprits: list[tuple[FaultCase, str]] = []
        for case in cases:
            before, row = bench.jobs, bench.row([case])
            if row.finding and row.status == "ok" and row.culprit is not None:
                culprits.append((case, row.culprit.op))
                _add(counts[1], {row.culprit.op}, row, bench.jobs - before)
        for size in (2, 3):
            sets = [s for s in itertools.combinations(culprits, size) if len({op for _, op in s}) == size]
            for chosen in random.Random(0).sample(sets, min(most_graphs, len(sets))):
                before, row = bench.jobs, bench.row([case for case, _ in chosen])
                _add(counts[size], {op for _, op in chosen}, row, bench.jobs - before)


def _add(count: list[int], wanted: set[str], row: Row, jobs: int) -> None:
    found = named(row)
    for at, more in enumerate((1, len(wanted), len(wanted & found), len(found - wanted), jobs)):
        count[at] += more


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", default=SUBJECTS, help=" ".join(SUBJECTS))
    parser.add_argument("--faults", type=int, default=40, help="of each subject")
    parser.add_argument("--graphs", type=int, default=30, help="of each subject with two faults, and with three")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    counts = {size: [0] * 5 for size in (1, 2, 3)}
    for name in asked.subjects:
        try_subject(name, asked.faults, asked.graphs, counts)
    print("faults  graphs  faults in all  named  without a fault  jobs per graph")
    for size, (graphs, faults, found, extra, jobs) in counts.items():
        print(f"{size:6}  {graphs:6}  {faults:13}  {found:5}  {extra:15}  {jobs / max(graphs, 1):14.2f}")
    return int(any(found < faults or extra for _, faults, found, extra, _ in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
