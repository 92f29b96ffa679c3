"""Measures memory and CPU time of a campaign's driver over many cases: `python benchmarks/campaign_memory.py [CASES]`.

Cases and platforms (in numpy) are tiny, so that the driver dominates. The benchmark prints the driver's resident memory
over time and its CPU time per outcome. Target: at most 1 GiB over 100,000 cases, without growth.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path

import psutil

TESTS = Path(__file__).resolve().parent.parent / "tests" / "mindgap_campaign" / "campaign"
sys.path.insert(0, str(TESTS))
os.environ["PYTHONPATH"] = str(TESTS)

from small_source import Small, plan_text  # noqa: E402

from mindgap_campaign.campaign.plan import parse_plan  # noqa: E402
from mindgap_campaign.campaign.session import RunOptions, begin  # noqa: E402
from mindgap_campaign.campaign.state.steps import StepTracker  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=int, nargs="?", default=100_000)
    asked = parser.parse_args()
    text = plan_text(asked.cases, {"toys:PICKY": ""}, top='reference = "toys:EXACT"')
    step = max(1, asked.cases // 20)

    @contextlib.contextmanager
    def watch(steps: StepTracker) -> Generator[None]:
        over = threading.Event()
        thread = threading.Thread(target=_watch, args=(steps, over, step), daemon=True)
        thread.start()
        yield
        over.set()
        thread.join()

    with tempfile.TemporaryDirectory(prefix="mindgap-memory-") as directory:
        cpu, wall = time.process_time(), time.monotonic()
        steps = StepTracker()
        with watch(steps):
            found = begin(
                parse_plan(text, "p"), text, Path(directory) / "c", Small(), options=RunOptions(jobs=2, steps=steps)
            )
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        size = sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file())
    outcomes = found.totals.rows + found.cases
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{found.cases} cases, {outcomes} outcomes: driver {cpu:.1f} CPU s, {1e3 * cpu / outcomes:.2f} ms each; ",
        end="",
    )
    print(f"workers {children.ru_utime + children.ru_stime:.1f} CPU s; {wall:.0f} s; ", end="")
    print(f"peak {peak} MiB; {size / 1e6:.1f} MB of files, {size / outcomes:.0f} bytes an outcome")


def _watch(steps: StepTracker, over: threading.Event, step: int) -> None:
    process, following = psutil.Process(), step
    while not over.wait(0.5):
        running = steps.now().running
        cases = 0 if running is None else running.cases
        if cases >= following:
            print(f"{cases:>8} cases: {process.memory_info().rss >> 20} MiB", flush=True)
            following = (cases // step + 1) * step


if __name__ == "__main__":
    main()
