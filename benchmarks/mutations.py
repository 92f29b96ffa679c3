"""Counts the mutations that run, by kind, and measures the time to propose one.

    .venv/bin/python benchmarks/mutations.py CATALOGUE [--bases 300] [--regions 3] [--seed 0] [--kind KIND]

Regions are cut from graphs of the catalogue drawn at random; each is mutated once by every kind, and every mutant runs
once. Places: regions where the kind found something to change. Valid: the mutant ran. Useful: an output of it has
finite values that differ. Microseconds: processor time of one proposal, median and mean. With `--kind`, also the
reasons of failures.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from mindgap.graph import MindgapError
from mindgap_campaign.catalogue import Catalogue
from mindgap_campaign.synth.mutation import rules
from mindgap_campaign.synth.mutation.edit import apply
from mindgap_campaign.synth.mutation.propose import KINDS, propose
from mindgap_campaign.synth.regions.cut import RegionCut, cut, cut_of
from mindgap_campaign.synth.regions.prepared import prepare_graph
from mindgap_campaign.synth.regions.region import Region
from mindgap_campaign.synth.regions.trial import plain_region, region_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", type=Path)
    parser.add_argument("--bases", type=int, default=300)
    parser.add_argument("--regions", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    arguments = parser.parse_args()

    table, rng = rules.load(), random.Random(arguments.seed)
    asked, found, useful = Counter[str](), Counter[str](), Counter[str]()
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, list[float]] = defaultdict(list)
    ran = Counter[str]()
    for digest, piece, region in regions(arguments.catalogue, arguments.bases, arguments.regions, rng):
        prepared = apply(piece.graph, region.origin.edits)
        for kind in [arguments.kind] if arguments.kind else KINDS:
            asked[kind] += 1
            clock = time.process_time()
            proposal = propose(prepared, rng, table, kind)
            seconds[kind].append(time.process_time() - clock)
            if proposal is None:
                continue
            found[kind] += 1
            edits = (*region.origin.edits, *proposal.edits)
            mutant = region_of(digest, piece, edits, (kind,))
            if isinstance(mutant, Region):
                useful[kind] += 1
            if isinstance(mutant, Region) or mutant == "useless":
                ran[kind] += 1
            else:
                reasons[kind][mutant] += 1

    print(f"{'kind':12}{'regions':>9}{'places':>9}{'valid':>9}{'useful':>9}{'µs':>8}{'mean':>8}")
    for kind in asked:
        times = seconds[kind]
        cost = f"{statistics.median(times) * 1e6:8.0f}{statistics.mean(times) * 1e6:8.0f}"
        shares = f"{share(ran[kind], found[kind]):>9}{share(useful[kind], found[kind]):>9}"
        print(f"{kind:12}{asked[kind]:9}{found[kind]:9}{shares}{cost}")
    total = sum(sum(times) for times in seconds.values())
    print(f"all: {share(ran.total(), found.total())} valid, {asked.total() / total:.0f} proposals a second")
    if arguments.kind:
        for reason, count in reasons[arguments.kind].most_common(40):
            print(f"{count:6} {reason}")


def regions(path: Path, bases: int, each: int, rng: random.Random) -> Iterator[tuple[str, RegionCut, Region]]:
    """Cuts of random graphs of a catalogue, with the region that each became."""
    catalogue = Catalogue(path)
    kept = catalogue.entries("status = 'captured'")
    rng.shuffle(kept)
    for entry in kept[:bases]:
        prepared = prepare_graph(catalogue.graph(entry))
        small = len(prepared.graph.nodes) <= 50
        for _ in range(1 if small else each):
            piece = cut_of(prepared, range(len(prepared.graph.nodes))) if small else cut(prepared, rng)
            if piece is None:
                continue
            try:
                region = plain_region(entry.graph, piece, rng)
            except MindgapError:
                continue
            if isinstance(region, Region):
                yield entry.graph, piece, region


def share(part: int, whole: int) -> str:
    """As a percentage."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


if __name__ == "__main__":
    main()
