"""Counts the distinct operators that the corpus reaches: per source and pass, and in union.

    python benchmarks/operator_union.py CATALOGUE

Reads a catalogue that `mindgap corpus build` made. An operator is an overload packet (`aten.add`), counted beside its
overloads (`aten.add.Tensor`). Prints a table, then a line of JSON. `only`: packets that no other source has.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mindgap_campaign.catalogue import Catalogue

PASSES = ("forward", "backward", "sgd", "adamw")
#: (source, pass) -> the overloads in its graphs.
Reached = dict[tuple[str, str], set[str]]


def from_catalogue(path: Path) -> Reached:
    reached: Reached = defaultdict(set)
    for entry in Catalogue(path, create=False).entries("status IN ('captured', 'duplicate')"):
        reached[entry.scheme, entry.of].update(entry.operators)
    return reached


def packets(overloads: Iterable[str]) -> set[str]:
    return {name.rpartition(".")[0] for name in overloads}


def table(reached: Reached) -> dict[str, Any]:
    """Prints a row per source and pass, then the unions; gives the unions as data."""
    kinds = sorted({kind for kind, _ in reached})
    by_kind = {kind: set().union(*(ops for (k, _), ops in reached.items() if k == kind)) for kind in kinds}
    print(f"{'source':<14}{'pass':<10}{'packets':>9}{'overloads':>11}{'only':>7}")
    for kind in kinds:
        others = packets(set().union(*(ops for k, ops in by_kind.items() if k != kind)))
        for of in PASSES:
            if reached.get((kind, of)):
                ops = reached[kind, of]
                print(f"{kind:<14}{of:<10}{len(packets(ops)):>9}{len(ops):>11}{len(packets(ops) - others):>7}")
        whole = by_kind[kind]
        print(f"{kind:<14}{'any':<10}{len(packets(whole)):>9}{len(whole):>11}{len(packets(whole) - others):>7}")
    union: dict[str, Any] = {}
    for of in (*PASSES, "any"):
        ops = set().union(*(found for (_, o), found in reached.items() if of in (o, "any")))
        if ops:
            union[of] = {"packets": len(packets(ops)), "overloads": len(ops)}
            print(f"{'union':<14}{of:<10}{len(packets(ops)):>9}{len(ops):>11}")
    return union


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", type=Path, help="a directory made by `mindgap corpus build`")
    print(json.dumps({"union": table(from_catalogue(parser.parse_args().catalogue))}))


if __name__ == "__main__":
    main()
