"""Kills a small campaign's driver and workers at many random moments, and compares its store with an undisturbed one.

    python benchmarks/campaign_kills.py --moments 50

Each round begins a campaign, kills its driver (or, every third time, one of the processes that it started), resumes
it to its end, and compares the store with that of an undisturbed campaign: jobs, outcome kinds, digests, verdicts.
`--platform` may name real platforms. The default platforms are small ones in numpy, which keep the rounds short.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests" / "mindgap_campaign" / "campaign"
sys.path.insert(0, str(TESTS))
os.environ["PYTHONPATH"] = str(TESTS)

from kills import Sessions, contents, differences  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--cases", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reference", default="toys:EXACT")
    parser.add_argument("--platform", action="append", help="default: toys:WRONG, toys:SLOW, toys:FAILS")
    asked = parser.parse_args()
    platforms = asked.platform or ["toys:WRONG", "toys:SLOW", "toys:FAILS"]
    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="mindgap-kills-") as directory:
        calm = Sessions(Path(directory) / "calm", asked.cases, asked.reference, platforms)
        took = calm.finish("begin")
        wanted = contents(calm.directory)
        sizes = ", ".join(f"{len(rows)} {table}" for table, rows in wanted.items())
        print(f"undisturbed: {took:.1f} s, {sizes}", flush=True)
        struck: Counter[str] = Counter()
        wrong = 0
        for number in range(asked.moments):
            killed = Sessions(Path(directory) / "killed", asked.cases, asked.reference, platforms)
            moment = rng.uniform(0.05, 0.95) * took
            found = _strike(killed, rng, moment, number)
            lines = differences(contents(killed.directory), wanted)
            struck[found] += 1
            wrong += bool(lines)
            print(
                f"{number + 1:>3}/{asked.moments}  {moment:5.1f} s  {found:<50} {len(lines) or 'no'} differences",
                flush=True,
            )
            for line in lines[:5]:
                print(f"       {line[:300]}")
            shutil.rmtree(killed.directory)
    print(f"{asked.moments} moments, {wrong} stores that differ; struck: {dict(struck.most_common())}")
    return 1 if wrong else 0


def _strike(killed: Sessions, rng: random.Random, moment: float, number: int) -> str:
    """Kills one process at the moment, and goes on to the end; says which."""
    if number % 3 == 2:
        return killed.kill_worker(moment, rng, "begin") or "nothing (there was no worker)"
    struck = killed.kill_driver(moment, "begin")
    killed.finish("resume")
    return "driver" if struck else "nothing (it was done)"


if __name__ == "__main__":
    sys.exit(main())
