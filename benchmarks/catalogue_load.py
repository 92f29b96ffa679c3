"""Measures the time to open a catalogue, and to load, check and decode one of its graphs.

    .venv/bin/python benchmarks/catalogue_load.py CATALOGUE [--sample 500] [--seed 0]

Prints milliseconds of processor time (median, 90th and 99th percentile, largest) over a random sample of kept graphs,
per pass, with the median of nodes. The time to open the catalogue is a separate line.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import defaultdict
from pathlib import Path

from mindgap_campaign.catalogue import Catalogue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", type=Path)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    clock = time.perf_counter()
    catalogue = Catalogue(arguments.catalogue)
    kept = catalogue.entries("status = 'captured'")
    print(f"opened, and {len(kept)} entries listed, in {(time.perf_counter() - clock) * 1e3:.0f} ms")
    random.Random(arguments.seed).shuffle(kept)

    seconds: dict[str, list[float]] = defaultdict(list)
    nodes: dict[str, list[int]] = defaultdict(list)
    for entry in kept[: arguments.sample]:
        clock = time.process_time()
        graph = catalogue.graph(entry)
        seconds[entry.of].append(time.process_time() - clock)
        nodes[entry.of].append(len(graph.nodes))
    seconds["all"] = [each for found in list(seconds.values()) for each in found]
    nodes["all"] = [each for found in list(nodes.values()) for each in found]
    print(f"{'pass':10} {'graphs':>7} {'nodes':>7} {'ms: median':>10} {'p90':>7} {'p99':>7} {'largest':>7}")
    for of, found in seconds.items():
        ordered = sorted(1e3 * each for each in found)
        p90, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.9, 0.99))
        middle = statistics.median(ordered)
        print(
            f"{of:10} {len(found):7} {statistics.median(nodes[of]):7.0f} {middle:10.1f} {p90:7.1f} {p99:7.1f}"
            f" {ordered[-1]:7.1f}"
        )


if __name__ == "__main__":
    main()
