"""Prints the tables of docs/campaigns/2026-11.md: `python tools/target_tables.py STORE`.

All figures are of the tables of `mindgap study gap STORE`: `totals`, `coverage`, `consistency` and `compile_failures`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindgap.results.store import Store
from mindgap_studies import records
from mindgap_studies.gap import gap

AGREE = ("identical", "rounding", "ill_conditioned", "undefined", "internal")
WRONG = ("structural", "exceptional", "discrepant")
UNJUDGED = ("unjudged", "not_judged", "not_run", "no_reference")
CLASSES = ("stalled", "unsupported_operator", "crash", "code_generation", "other")
EXECUTION = "SELECT platform, max(description->>'execution') AS execution FROM platforms GROUP BY platform"


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def verdicts(platform: str, execution: str, totals: dict[str, Any], coverage: dict[str, Any], every: int) -> list[str]:
    """Returns the cells of a target's row of the first table. `every`: the operators of all variants."""

    def rows(words: Sequence[str]) -> int:
        return sum(totals[word] for word in words)

    agree, fewer, wrong = rows(AGREE), totals["reduced_precision"], rows(WRONG)
    judged = agree + fewer + wrong
    cells = [f"`{platform}`", execution, totals["rows"], f"{coverage['packets_ran']} of {coverage['packets_given']}"]
    cells += [f"{100 * coverage['packets_ran'] / every:.0f} %", totals["ran"]]
    cells += [f"{agree} of {judged}, {share(agree, judged)}", fewer, wrong, totals["failed"], totals["unsupported"]]
    return [f"{each:,}" if isinstance(each, int) else str(each) for each in (*cells, rows(UNJUDGED))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    store = Store(parser.parse_args().store)
    study = gap(store)
    if study.wrong:
        raise SystemExit(f"totals do not reconcile: {study.wrong[0].what}")
    named = {name: {row["platform"]: row for row in records(study.table(name))} for name in ("totals", "coverage")}
    executions = {row["platform"]: row["execution"] or "native" for row in store.rows(EXECUTION)}
    platforms = [each for each in named["totals"] if each != "all"]
    every = named["coverage"]["all"]["packets_given"]
    print(f"{len(platforms)} targets beside {study.reference}, {every} operators\n")
    heads = ["target", "execution", "variants", "operators", f"of {every}", "ran", "agree", "fewer bits", "wrong"]
    rows = [verdicts(p, executions[p], named["totals"][p], named["coverage"][p], every) for p in platforms]
    print(table([*heads, "failed", "refused", "unjudged"], rows))
    compared = {row["platform"]: row for row in records(study.table("consistency")) if row["base"] == "both"}
    beyond = {p: (compared[p]["beyond_paper"], compared[p]["compared"]) for p in platforms if p in compared}
    outside = [[f"`{p}`", of, f"{n} ({share(n, of)})"] for p, (n, of) in beyond.items()]
    print(table(["target", "compared", "beyond the paper's tolerance"], outside))
    failed = {row["platform"]: row for row in records(study.table("compile_failures"))}
    counts = [[f"`{p}`", *(failed[p][n] for n in ("models", "failed", *CLASSES))] for p in platforms if p in failed]
    print(table(["target", "variants", "no outputs", *(each.replace("_", " ") for each in CLASSES)], counts))


if __name__ == "__main__":
    main()
