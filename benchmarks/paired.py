"""Runs a command of two checkouts in turn and compares its processor time, child processes included.

    python benchmarks/paired.py OLD NEW [--times 5] -- benchmarks/graph_codec.py timm:resnet18
    python benchmarks/paired.py OLD NEW -- -m mindgap diff timm:resnet18?size=64 -p cpu/jit

OLD and NEW are checkouts; what follows `--` are arguments of Python, which imports mindgap from the checkout. The ratio
is the median of the ratios of neighbouring runs, which other work on the machine disturbs alike.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def cpu_seconds(checkout: Path, command: Sequence[str]) -> float:
    """Runs the command in a checkout. Exits where its status is above 1, the status of findings."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [sys.executable, *command], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode > 1:
        sys.exit(f"{checkout}: status {done.returncode}: {done.stderr.strip()[-300:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    checkouts = arguments.old.resolve(), arguments.new.resolve()
    for checkout in checkouts:
        cpu_seconds(checkout, arguments.command)
    pairs = [tuple(cpu_seconds(each, arguments.command) for each in checkouts) for _ in range(arguments.times)]
    old, new = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"old {old:.2f} CPU s, new {new:.2f} CPU s, ratio {ratio:.3f}: {' '.join(arguments.command)}")


if __name__ == "__main__":
    main()
