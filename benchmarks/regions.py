"""Measures how fast regions are cut from a catalogue's graphs and validated by a run, and the share of valid ones.

    .venv/bin/python benchmarks/regions.py CATALOGUE [--bases 300] [--cuts 8] [--seed 0]

All times are CPU time of one thread: cuts per second, microseconds per recipe and per trial (and the operators' share
of a trial), regions per second. Then the share of valid cuts, the reasons why others are invalid, the sizes of cuts,
and the number of operators in the regions.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from mindgap.graph import TensorStore
from mindgap_campaign.catalogue import Catalogue
from mindgap_campaign.synth.mutation.edit import apply
from mindgap_campaign.synth.regions.cut import MOST_NODES, RegionCut, cut
from mindgap_campaign.synth.regions.prepared import prepare_graph
from mindgap_campaign.synth.regions.trial import Trial, run_trial
from mindgap_campaign.synth.values.recipes import recipes

spent: Counter[str] = Counter()


@contextmanager
def timed(stage: str) -> Iterator[None]:
    start = time.process_time()
    yield
    spent[stage] += time.process_time() - start


def tried(found: RegionCut, rng: random.Random, tensors: TensorStore) -> Trial:
    with timed("recipes"):
        edits, _ = recipes(found.graph, rng, tensors=tensors)
    with timed("trial"):
        return run_trial(apply(found.graph, edits), tensors=tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", type=Path)
    parser.add_argument("--bases", type=int, default=300)
    parser.add_argument("--cuts", type=int, default=8, help="of each base")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()

    torch.set_num_threads(1)
    catalogue = Catalogue(asked.catalogue)
    tensors = TensorStore(catalogue.tensors)
    entries = catalogue.entries("status = 'captured'")
    rng = random.Random(asked.seed)
    rng.shuffle(entries)
    reasons: Counter[str] = Counter()
    sizes: list[int] = []
    operators: set[str] = set()
    counts: Counter[str] = Counter()
    for entry in entries[: asked.bases]:
        graph = catalogue.graph(entry)
        with timed("prepare"):
            base = prepare_graph(graph)
        counts["bases"] += 1
        for _ in range(asked.cuts):
            with timed("cut"):
                found = cut(base, rng)
            if found is None:
                counts["nothing"] += 1
                continue
            trial = tried(found, rng, tensors)
            sizes.append(len(found.nodes))
            spent["run"] += trial.cpu_seconds
            counts[f"{entry.of} valid" if not trial.reason else f"{entry.of} not"] += 1
            reasons[trial.reason] += 1
            if not trial.reason:
                operators.update(node.op for node in trial.graph.nodes)
                counts["outputs"] += len(trial.output_spans)
                counts["dropped"] += len(trial.drops)
                counts["free"] += len(trial.free)
    show(counts, reasons, sizes, operators)


def show(counts: Counter[str], reasons: Counter[str], sizes: list[int], operators: set[str]) -> None:
    cuts = max(len(sizes), 1)
    valid = reasons.pop("", 0)
    total = spent["cut"] + spent["recipes"] + spent["trial"]
    print(f"{counts['bases']} bases, prepared in {1e3 * spent['prepare'] / max(counts['bases'], 1):.1f} ms each")
    print(f"{cuts} cuts at {cuts / spent['cut']:.0f}/s, {counts['nothing']} draws came to nothing")
    tenths = Counter((size - 1) * 5 // MOST_NODES for size in sizes)
    print("sizes: " + ", ".join(f"{10 * k + 1}-{10 * k + 10}: {tenths[k]}" for k in sorted(tenths)))
    run = 1e6 * spent["run"] / cuts
    print(f"recipes {1e6 * spent['recipes'] / cuts:.0f} µs, trial {1e6 * spent['trial'] / cuts:.0f} µs ({run:.0f} run)")
    print(f"{valid} regions ({100 * valid / cuts:.1f} % of cuts) at {valid / total:.0f}/s, {len(operators)} operators")
    for of in ("forward", "backward"):
        tried_of = counts[f"{of} valid"] + counts[f"{of} not"]
        print(f"  {of}: {100 * counts[f'{of} valid'] / max(tried_of, 1):.1f} % of {tried_of}")
    print(f"outputs {counts['outputs']}, dropped {counts['dropped']}, free inputs {counts['free']}")
    for reason, count in reasons.most_common(30):
        print(f"{count:6} {reason}")


if __name__ == "__main__":
    main()
