r"""Measures a campaign's CPU time by purpose.

    python benchmarks/judging_cost.py CATALOGUE [--count 200] [--out STORE] [--against STORE]

Runs a fresh campaign of variants of ten nodes and prints its CPU seconds:

    by purpose      the figures of `mindgap campaign status`, and the operating system's for the finished process
    by row          running and judging, by platform and verdict
    with --against  the rows whose verdict, blame or culprit is not that of an earlier campaign of the same plan

CATALOGUE: of operator samples, made by `mindgap corpus build CATALOGUE 'ops:*'`. `--out` keeps the campaign, for a
later `--against`. `--show` prints the figures of a campaign that has run, and runs nothing.

Target: judging <= running cases that are not refused; less than 5 % unaccounted; no row that differs. The exit status
is 1 if one of them fails; with `--figures-only`, for runs too small for targets, only if a row differs.

Two checkouts: their processor time, then a campaign of 500 variants of which no row may differ.

    python benchmarks/paired.py ../OLD . --times 3 --figure '([\d.,]+) judging[,;]' --figure '([\d.,]+) running[,;]' \
        -- benchmarks/judging_cost.py CATALOGUE --count 200
    (cd ../OLD && .venv/bin/python benchmarks/judging_cost.py CATALOGUE --count 500 --out /tmp/old)
    python benchmarks/judging_cost.py CATALOGUE --count 500 --against /tmp/old
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindgap.results.store import Store
from mindgap_campaign.campaign.state.expenses import lines_of, spent

PLATFORMS = (
    "cpu/eager@isa=default",
    "cpu/eager@isa=avx2",
    "cpu/jit",
    "onnxruntime/cpu@threads=1",
    "openvino/cpu@precision=f32,threads=1",
)
#: The largest share of the operating system's figure that may stay unexplained.
UNACCOUNTED = 0.05
ROWS = """
SELECT v.model, v.platform, v.word, v.blame, v.culprit_op, v.detail, coalesce(v.judge_seconds, 0) AS judging,
  coalesce(element_at(o.timings, 'cpu')[1], 0) AS running
FROM verdicts v LEFT JOIN outcomes o ON o.run = v.run AND o.model = v.model AND o.platform = v.platform
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--platform", action="append", help="instead of the five; may repeat")
    parser.add_argument("--out", type=Path, help="keep the campaign here")
    parser.add_argument("--show", type=Path, metavar="STORE", help="a campaign that has run")
    parser.add_argument("--figures-only", action="store_true", help="miss a target without exit status 1")
    parser.add_argument("--against", type=Path, metavar="STORE", help="an earlier campaign of the same plan")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.show or asked.out or Path(scratch) / "campaign"
        system = None if asked.show else run(asked, folder, Path(scratch))
        rows = rows_of(folder)
        wrong = print_purposes(Store(folder), system, rows) and not asked.figures_only
        print_rows(rows)
        return int(wrong | (asked.against is not None and print_differences(rows, rows_of(asked.against))))


def run(asked: argparse.Namespace, folder: Path, scratch: Path) -> float:
    """Runs the campaign; the processor seconds of all its processes, as the operating system counts them."""
    plan = scratch / "plan.toml"
    platforms = "\n".join(f'"{name}" = {{}}' for name in asked.platform or PLATFORMS)
    plan.write_text(
        f'seed = {asked.seed}\ncatalogue = "{asked.catalogue.resolve()}"\n'
        f"[variants]\ncount = {asked.count}\nsizes = [ {{nodes = {asked.nodes}, share = 1.0}} ]\n"
        f"[platforms]\n{platforms}\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "mindgap", "campaign", "run", str(plan), "--out", str(folder), "--no-support"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, env={"OMP_NUM_THREADS": "1", **os.environ})
    if done.returncode > 1:
        raise SystemExit(f"the campaign ended with status {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return Store(folder).rows(ROWS)


def print_purposes(store: Store, system: float | None, rows: list[dict[str, Any]]) -> bool:
    """Whether a goal is missed. Refused cases, which a campaign that knows of them does not run, are no running."""
    (run_row,) = store.rows("SELECT run FROM runs")
    found = spent(store, run_row["run"])
    print("\n".join(lines_of(found)) or "this campaign kept no account")
    if not found.system:
        return False
    judging, running = (found.purposes.get(name, 0.0) for name in ("judging", "running"))
    refused = sum(row["running"] for row in rows if row["word"] == "unsupported")
    without = judging / (running - refused)
    print(f"judging / running: {judging / running:.2f}; without {refused:.1f} s of refusals: {without:.2f}")
    if system is None:
        return judging > running - refused
    left = 1 - sum(found.purposes.values()) / system
    print(f"the finished process, by the operating system: {system:.1f} s; {left:.1%} of it unaccounted")
    return judging > running - refused or left > UNACCOUNTED


def print_rows(rows: list[dict[str, Any]]) -> None:
    """CPU seconds by platform and verdict; `judging` of a campaign of an older mindgap is wall time, with waiting."""
    sums: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        each = sums.setdefault((row["platform"], row["word"]), [0, 0.0, 0.0])
        each[0] += 1
        each[1] += row["running"]
        each[2] += row["judging"]
    print(f"\n{'platform':28} {'verdict':18} {'rows':>6} {'running':>9} {'judging':>9} {'ms a row':>9}")
    for (platform, word), (count, running, judging) in sorted(sums.items(), key=lambda each: -each[1][2]):
        print(f"{platform:28} {word:18} {count:6.0f} {running:9.2f} {judging:9.2f} {1e3 * judging / count:9.1f}")


def print_differences(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> bool:
    """The rows that differ, and whether there are any."""

    def decided(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return row["word"], row["blame"], row["culprit_op"]

    old = {(row["model"], row["platform"]): row for row in before}
    pairs = [(row, old[key]) for row in now if (key := (row["model"], row["platform"])) in old]
    differing = [(new, was) for new, was in pairs if decided(new) != decided(was)]
    print(f"\n{len(pairs)} rows are in both campaigns, {len(differing)} of them differ")
    for new, was in differing:
        print(f"  {new['model']} {new['platform']}: {decided(was)} -> {decided(new)}\n    {was['detail'][:150]}")
        print(f"    {new['detail'][:150]}")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
