r"""Counts differential tests per CPU second in one process: make a graph, run it on two platforms, judge differences.

    .venv/bin/python benchmarks/differential_tests.py CATALOGUE [--tests 600] [--compiled 50] [--nnsmith PYTHON]

A test has these steps: cut eight to ten nodes from a model's graph; mutate two of three graphs; draw inputs and run the
graph once as a trial; run it as a job on `cpu/eager` and on the other platform; compare outputs by digest and, if
digests differ, whole outputs by tolerance. The search for a cause is not part of a test. The time to open platforms and
to precompile C++ headers (once per cache) is not counted; the C++ compiler's time is.

`--nnsmith`: an interpreter that has NNSmith. The same is then measured with its generator of at most ten nodes, its
search for inputs, its eager oracle and its comparison: first with its own TorchScript backend, then with
`torch.compile`, for which its last release has no backend.

    target, per CPU second   eager and TorchScript >= 43      eager and Inductor >= 2

Two checkouts, with both rates (`paired.py`). In OLD from before batch loading took jobs this script ends with an
AttributeError; the first line mends it there:

    git show ':/batch loading takes jobs' -- benchmarks/differential_tests.py | git -C ../OLD apply
    python benchmarks/paired.py ../OLD . --figure 'cpu/jit.* ([\d.]+) tests/CPU s' \
        --figure 'cpu/aotinductor.* ([\d.]+) tests/CPU s' -- benchmarks/differential_tests.py CATALOGUE
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.graph.compare.profiles import passes
from mindgap.platforms.registry import find
from mindgap.run.batch_loading import prepare
from mindgap.run.local import Caches, run_job
from mindgap.run.outcome import Job, Outcome
from mindgap_campaign.catalogue import Catalogue
from mindgap_campaign.synth.mutation import rules
from mindgap_campaign.synth.mutation.edit import apply
from mindgap_campaign.synth.mutation.propose import propose
from mindgap_campaign.synth.regions.cut import cut
from mindgap_campaign.synth.regions.prepared import prepare_graph
from mindgap_campaign.synth.regions.region import Region
from mindgap_campaign.synth.regions.trial import region_of
from mindgap_campaign.synth.values.recipes import recipes

FEWEST, MOST = 8, 10
#: Cuts of one base before the next is drawn.
EACH = 20
#: Graphs in one library.
TOGETHER = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", type=Path)
    parser.add_argument("--tests", type=int, default=600, help="eager and TorchScript")
    parser.add_argument("--compiled", type=int, default=50, help="eager and Inductor")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nnsmith", type=Path, help="an interpreter that has NNSmith")
    parser.add_argument("--peer-tests", type=int, default=20)
    parser.add_argument("--peer-compiled", type=int, default=4)
    arguments = parser.parse_args()
    # Inductor copies a tree of PyTorch's that is on its way out, and says so once for every library.
    warnings.filterwarnings("ignore", "`isinstance\\(treespec, LeafSpec\\)`", FutureWarning)

    for name, tests in (("cpu/jit@threads=1", arguments.tests), ("cpu/aotinductor@threads=1", arguments.compiled)):
        if not tests:
            continue
        variants = Variants(arguments.catalogue, arguments.seed)
        shown(name, measured(variants, name, tests))
        if arguments.nnsmith is None:
            print("    NNSmith was not measured: --nnsmith names no interpreter that has it")
            continue
        jit = "jit" in name
        shown(
            "    NNSmith beside it",
            peer(arguments.nnsmith, jit, arguments.peer_tests if jit else arguments.peer_compiled),
        )


@dataclass
class Tally:
    """CPU seconds of this process and its children, for how many tests; and what came of them."""

    tests: int = 0
    seconds: float = 0.0
    nodes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


class Variants:
    """Graphs of eight to ten nodes without end, the same for the same seed."""

    def __init__(self, catalogue: Path, seed: int) -> None:
        self._catalogue = Catalogue(catalogue, create=False)
        self._rng = random.Random(seed)
        self._entries = self._catalogue.entries("status = 'captured' AND nodes BETWEEN 20 AND 400")
        self._rules = rules.load()

    def __iter__(self) -> Iterator[Graph]:
        while True:
            entry = self._rng.choice(self._entries)
            base = prepare_graph(self._catalogue.graph(entry))
            for number in range(EACH):
                piece = cut(base, self._rng, MOST)
                if piece is None or len(piece.nodes) < FEWEST:
                    continue
                try:
                    given, _ = recipes(piece.graph, self._rng)
                except MindgapError:
                    continue
                edits, kinds = tuple(given), ()
                if number % 3 and (mutation := propose(apply(piece.graph, edits), self._rng, self._rules)):
                    edits, kinds = (*edits, *mutation.edits), (mutation.kind,)
                region = region_of(entry.graph, piece, edits, kinds)
                if isinstance(region, Region):
                    yield region.graph


def measured(variants: Variants, name: str, wanted: int) -> Tally:
    """That many tests against a platform, after a few that nobody counts."""
    opened = {}
    for platform in ("cpu/eager@threads=1", name):
        backend, options = find(platform)
        os.environ.update(backend.environment(options))
        opened[platform] = (backend.open(options), Caches())
    graphs = iter(variants)
    tested(opened, [next(graphs) for _ in range(3)], Tally())
    tally = Tally()
    started = cpu_seconds()
    while tally.tests < wanted:
        count = min(TOGETHER, wanted - tally.tests)
        tested(opened, [next(graphs) for _ in range(count)], tally)
    tally.seconds = cpu_seconds() - started
    return tally


def tested(opened: dict, graphs: Sequence[Graph], tally: Tally) -> None:
    jobs = {name: [Job(name, graph, want="outputs", repeat=1) for graph in graphs] for name in opened}
    for name, (platform, caches) in opened.items():
        _, message = prepare(platform, jobs[name], TensorStore(Path(os.devnull)), caches)
        if message:
            print(f"{name} loads each graph alone: {message}", file=sys.stderr)
    for number, graph in enumerate(graphs):
        one, other = (
            run_job(platform, jobs[name][number], caches=caches) for name, (platform, caches) in opened.items()
        )
        tally.tests += 1
        tally.nodes += len(graph.nodes)
        tally.kinds[kind(one, other)] += 1


def kind(one: Outcome, other: Outcome) -> str:
    if not (one.ran and other.ran):
        return other.status if one.ran else f"reference: {one.status}"
    pairs = zip(one.outputs, other.outputs, one.arrays or (), other.arrays or (), strict=True)
    differing = [(x, y) for a, b, x, y in pairs if a.digest != b.digest]
    if not differing:
        return "identical"
    return "within tolerance" if all(passes("paper", x, y) for x, y in differing) else "beyond tolerance"


def peer(python: Path, jit: bool, tests: int) -> Tally:
    """The same count from NNSmith, by another interpreter."""
    script = Path(__file__).with_name("differential_tests_nnsmith.py")
    command = [str(python), str(script), "jit" if jit else "inductor", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"    NNSmith was not measured: {done.stderr.strip().splitlines()[-1:]}")
        return Tally()
    said = json.loads(done.stdout.splitlines()[-1])
    return Tally(said["tests"], said["seconds"], said["nodes"], Counter(said["kinds"]))


def cpu_seconds() -> float:
    """User and system, of this process and of every child that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def shown(name: str, tally: Tally) -> None:
    if tally.tests:
        kinds = ", ".join(f"{count} {what}" for what, count in tally.kinds.most_common())
        rate = f"{tally.tests / tally.seconds:8.2f} tests/CPU s"
        print(f"{name:26} {rate}  ({tally.tests} of {tally.nodes / tally.tests:.1f} nodes: {kinds})", flush=True)


if __name__ == "__main__":
    main()
