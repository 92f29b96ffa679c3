"""Runs a command in two checkouts in turn and compares its processor time, child processes included, and its figures.

    python benchmarks/paired.py OLD NEW [--times 5] [--figure REGEX]… -- benchmarks/trace_cost.py timm:resnet18
    python benchmarks/paired.py OLD NEW -- -m mindgap diff 'timm:resnet18?size=64' -p cpu/jit

OLD and NEW are checkouts; what follows `--` are arguments of Python, which imports mindgap from the checkout. Python is
that of the checkout's own `.venv` if it has one, so both need the same packages. A figure is a number that the command
prints: REGEX has one group, and the last match counts. Ratios are medians of the ratios of neighbouring runs, which
other work on the machine disturbs alike. OLD is a worktree of the earlier commit:

    git worktree add ../OLD COMMIT && make -C ../OLD .venv/.installed-dev

`small_diff.py`, `judging_cost.py`, `reduction_cost.py`, `worker_overhead.py` and `differential_tests.py` say which
command compares two checkouts. They are given from NEW, with absolute paths.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def python_of(checkout: Path) -> tuple[str, dict[str, str]]:
    """The interpreter that runs a checkout's code, and its environment variables."""
    own = checkout / ".venv" / "bin" / "python"
    return str(own if own.exists() else sys.executable), {**os.environ, "PYTHONPATH": str(checkout / "src")}


def measured(checkout: Path, command: Sequence[str], figures: Sequence[re.Pattern[str]]) -> list[float]:
    """CPU seconds and figures of a command in a checkout. Exits where its status is above 1, the status of findings."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python, environment = python_of(checkout)
    done = subprocess.run(
        [python, *command], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode > 1 or (done.returncode == 1 and "Traceback (most recent call last)" in done.stderr):
        sys.exit(f"{checkout}: status {done.returncode}: {done.stderr.strip()[-300:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime]
    for figure in figures:
        matches = figure.findall(done.stdout)
        if not matches:
            sys.exit(f"{checkout}: nothing that the command printed matches {figure.pattern!r}:\n{done.stdout[-600:]}")
        found.append(float(matches[-1].replace(",", "")))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--figure", action="append", default=[], metavar="REGEX", help="with one group; may repeat")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    figures = [re.compile(text, re.MULTILINE) for text in asked.figure]
    if any(figure.groups != 1 for figure in figures):
        parser.error("a figure has one group: --figure 'median ([0-9.]+) s'")
    checkouts = asked.old.resolve(), asked.new.resolve()
    for checkout in checkouts:
        measured(checkout, asked.command, figures)
    pairs = [[measured(each, asked.command, figures) for each in checkouts] for _ in range(asked.times)]
    print(" ".join(asked.command))
    for place, name in enumerate(("CPU seconds", *asked.figure)):
        old, new = ([pair[side][place] for pair in pairs] for side in (0, 1))
        ratio = statistics.median(b / a if a else float("nan") for a, b in zip(old, new, strict=True))
        print(f"old {statistics.median(old):.6g}, new {statistics.median(new):.6g}, ratio {ratio:.3f}: {name}")


if __name__ == "__main__":
    main()
