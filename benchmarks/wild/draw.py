"""Draws rows of a campaign at random, stratified by verdict and platform.

    python benchmarks/wild/draw.py STORE --findings 200 --calm 200 --seed 1 --out DIR

Writes `DIR/sample.csv`: one line per drawn row, with the size of its stratum and how many were drawn from it, so that
a share over all rows can be estimated from the sample. Rows with the verdict `identical` are left out: equal bits hide
no difference.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from mindgap.graph.compare.verdict import CALM
from mindgap.results.store import Store

#: Drawn from every stratum that has as many.
LEAST = 2


@dataclass(frozen=True)
class Drawn:
    """One row of a campaign in the sample. Its stratum has `stratum_rows`, of which `stratum_drawn` were drawn."""

    case: str
    platform: str
    verdict: str
    culprit: str
    culprit_node: int
    blame: str
    status: str
    detail: str
    stratum_rows: int
    stratum_drawn: int


def main() -> int:
    """Draws both samples and writes them into one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--findings", type=int, default=200)
    parser.add_argument("--calm", type=int, default=200)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    rows = verdict_rows(chosen.store)
    calm = [row for row in rows if row["verdict"] in CALM and row["verdict"] != "identical"]
    findings = [row for row in rows if row["verdict"] not in CALM]
    generator = random.Random(chosen.seed)
    drawn = [*stratified(findings, chosen.findings, generator), *stratified(calm, chosen.calm, generator)]
    if not drawn:
        print(f"{chosen.store} holds no finding and no calm row: nothing was drawn", file=sys.stderr)
        return 2
    chosen.out.mkdir(parents=True, exist_ok=True)
    write_sample(chosen.out / "sample.csv", drawn)
    print(f"{len(findings)} findings and {len(calm)} calm rows; drawn: {len(drawn)}")
    return 0


def verdict_rows(path: Path) -> list[dict[str, Any]]:
    """Every judged row of the store's runs, in a fixed order."""
    return Store(path).rows(
        "SELECT model AS case, platform, verdict, coalesce(culprit_op, '') AS culprit,"
        " coalesce(culprit_node, -1) AS culprit_node, coalesce(blame, '') AS blame, status,"
        " coalesce(detail, '') AS detail FROM verdicts WHERE verdict IS NOT NULL ORDER BY model, platform"
    )


def stratified(rows: Sequence[Mapping[str, Any]], wanted: int, generator: random.Random) -> list[Drawn]:
    """About `wanted` rows: from each (verdict, platform) in proportion to its size, and at least `LEAST`."""
    strata: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        strata[row["verdict"], row["platform"]].append(row)
    drawn: list[Drawn] = []
    for _, members in sorted(strata.items()):
        count = min(len(members), max(LEAST, round(wanted * len(members) / len(rows))))
        drawn += [
            Drawn(**row, stratum_rows=len(members), stratum_drawn=count) for row in generator.sample(members, count)
        ]
    return drawn


def write_sample(path: Path, rows: Sequence[Drawn]) -> None:
    """The sample as CSV, a header first."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Drawn)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def read_sample(path: Path) -> list[Drawn]:
    """What `write_sample` wrote."""
    numbers = {"culprit_node", "stratum_rows", "stratum_drawn"}
    with path.open(newline="") as file:
        return [
            Drawn(**{key: int(value) if key in numbers else value for key, value in line.items()})
            for line in csv.DictReader(file)
        ]


if __name__ == "__main__":
    raise SystemExit(main())
