"""Computes precision, culprit accuracy and miss rate of a checked sample, each with a 95 % interval.

    python benchmarks/wild/report.py DIR/checked.csv

`checked.csv` has a line per drawn row, with its class and one line of evidence:

- of findings: `real` (a user of the runtime gets it), `debatable` (a reading of the documentation allows it), `false`;
- of calm rows: `calm`, or `hides` (the difference is more than rounding and a user would want to know);
- of either: `unchecked`, where no way was found to run the row outside mindgap;
- `culprit_check`: `right`, `wrong`, or nothing where no culprit was named or it could not be checked.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

#: The 97.5th percentile of the normal distribution.
Z = 1.959964


def main() -> int:
    """Prints every figure; exits 2 where a row has no class."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checked", type=Path)
    with parser.parse_args().checked.open(newline="") as file:
        rows = list(csv.DictReader(file))
    open_rows = [
        row for row in rows if row["class"] not in ("real", "debatable", "false", "calm", "hides", "unchecked")
    ]
    if open_rows or not rows:
        print(f"{len(open_rows)} of {len(rows)} rows have no class: check them first", file=sys.stderr)
        return 2
    print(f"{len(rows)} rows, {sum(row['class'] == 'unchecked' for row in rows)} of them could not be checked")
    findings = [row for row in rows if row["class"] in ("real", "debatable", "false")]
    calm = [row for row in rows if row["class"] in ("calm", "hides")]
    for word in ("real", "debatable", "false"):
        print(share(f"findings that are {word}", findings, word))
    print(share("calm rows that hide something", calm, "hides"))
    named = [row for row in findings if row["class"] != "false" and row["culprit_check"]]
    right = sum(row["culprit_check"] == "right" for row in named)
    print(f"{'culprit right':32} {interval(right, len(named))}")
    for title, kind in (("by platform", "platform"), ("by verdict", "verdict")):
        print(f"\n{title}")
        for key, classes in sorted(by(rows, kind).items()):
            print(f"  {key:36} " + ", ".join(f"{count} {word}" for word, count in sorted(classes.items())))
    return 0


def share(title: str, rows: list[dict[str, str]], word: str) -> str:
    """Of the drawn rows, and estimated for all rows by the sizes of the strata."""
    count = sum(row["class"] == word for row in rows)
    weights = [(int(row["stratum_rows"]) / int(row["stratum_drawn"]), row["class"] == word) for row in rows]
    total = sum(weight for weight, _ in weights)
    estimated = sum(weight for weight, hit in weights if hit) / total if total else math.nan
    return f"{title:32} {interval(count, len(rows))}; of all rows, weighted by stratum: {100 * estimated:.1f} %"


def interval(count: int, total: int) -> str:
    """`12 of 200 = 6.0 % (3.5 to 10.2 %)`: Wilson's score interval, 95 %."""
    if not total:
        return "nothing to count"
    p = count / total
    centre = (p + Z * Z / (2 * total)) / (1 + Z * Z / total)
    half = Z / (1 + Z * Z / total) * math.sqrt(p * (1 - p) / total + Z * Z / (4 * total * total))
    return (
        f"{count} of {total} = {100 * p:.1f} % ({100 * max(0.0, centre - half):.1f} to {100 * (centre + half):.1f} %)"
    )


def by(rows: Iterable[Mapping[str, str]], kind: str) -> dict[str, Counter[str]]:
    """How often each class occurs, by one column."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        found[row[kind]][row["class"]] += 1
    return found


if __name__ == "__main__":
    raise SystemExit(main())
