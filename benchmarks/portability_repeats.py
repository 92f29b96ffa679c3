"""Runs a portability study twice and compares: `python benchmarks/portability_repeats.py [--framework NAME]…`.

Both studies have one seed, so they draw the same functions. Every class must be the same, and the intervals of every
slow-down must have a value in common. What differs is printed, and the exit status is 1. Without options it is
the 20 most used functions of all frameworks, twice. `--per-decile 5` adds those at random of the study itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from mindgap_studies.porting.repeated import compare_studies
from mindgap_studies.porting_runs.study import FRAMEWORKS, PortingRequest, run_porting
from mindgap_studies.results.ported_functions import PortingSettings, PortingStudy


def studied(request: PortingRequest, out: Path) -> PortingStudy:
    started = time.monotonic()
    study, problems = run_porting(request, out, lambda done, total, what: None)
    for name, why in problems.items():
        print(f"not studied: {name}: {why}")
    print(f"{len(study.cells)} functions on targets in {time.monotonic() - started:.0f} s", flush=True)
    return study


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", action="append", choices=[*FRAMEWORKS])
    parser.add_argument("--platform", action="append", default=[], help="a target of PyTorch's functions")
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--per-decile", type=int, default=0)
    parser.add_argument("--files", type=int, default=3000)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    settings = PortingSettings(
        top=chosen.top, per_decile=chosen.per_decile, files=chosen.files, processes=chosen.processes,
        rounds=chosen.rounds,
    )  # fmt: skip
    request = PortingRequest(tuple(chosen.framework or FRAMEWORKS), (), tuple(chosen.platform), settings)
    with tempfile.TemporaryDirectory() as folder:
        first, second = (studied(request, Path(folder) / f"{number}.jsonl") for number in (1, 2))
    found = compare_studies(first, second)
    for each in found.differences:
        print(f"{each.framework} {each.function} on {each.target}: {each.what} {each.before}, then {each.after}")
    print(
        f"{found.agreeing_cells} of {found.cells} classes agree, {found.agreeing_slowdowns} of {found.slowdowns} "
        f"slow-downs agree, and {found.undetermined} are not determined"
    )
    return 1 if found.differences else 0


if __name__ == "__main__":
    sys.exit(main())
