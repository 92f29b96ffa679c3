"""Judges every case and counts the right verdicts: `python benchmarks/truth/run.py [--platform TEXT] [--name TEXT]`.

Prints a line per wrong case, one per finding that blames the wrong side, and totals per platform; exits 1 if any
verdict is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mindgap.graph import TensorStore
from mindgap.graph_capture import capture
from mindgap.platforms.host import cpu_flags
from mindgap.results.rows import Row
from mindgap.workflows.diff import RunSettings, Subject, diff_many
from truth.case import Case
from truth.cases_inductor import CASES as TORCH
from truth.cases_ort_ov import CASES as ORT_OV
from truth.cases_records import CASES as RECORDS


def main() -> int:
    """Runs the chosen cases platform by platform."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", default="")
    parser.add_argument("--name", default="")
    parser.add_argument("--json", type=Path, help="write every row here")
    chosen = parser.parse_args()
    cases = [c for c in all_cases() if chosen.platform in c.platform and chosen.name in c.name]
    if not cases:
        print("no case has such a name or platform", file=sys.stderr)
        return 2
    flags = set(cpu_flags())
    for case in (absent := [c for c in cases if c.needs and not c.needs & flags]):
        print(f"LEFT OUT {case.platform} {case.name}: this processor has none of {', '.join(sorted(case.needs))}")
    cases = [c for c in cases if c not in absent]
    if not cases:
        print("no case of that name or platform can show its fault on this processor", file=sys.stderr)
        return 2
    started = time.perf_counter()
    wrong = unblamed = 0
    rows: list[dict[str, object]] = []
    tally: Counter[tuple[str, str, bool]] = Counter()
    for platform in dict.fromkeys(c.platform for c in cases):
        here = [c for c in cases if c.platform == platform]
        for case, row in zip(here, judged(here, platform), strict=True):
            right = row.verdict in case.verdicts
            wrong += not right
            tally[platform, case.expected, right] += 1
            culprit = row.culprit.op if row.culprit else "-"
            unblamed += right and case.blame not in (None, row.blame)
            rows.append({"case": case.name, "platform": platform, "verdict": row.verdict, "right": right,
                         "culprit": culprit, "blame": row.blame})  # fmt: skip
            if not right:
                print(f"WRONG {platform} {case.name}: {row.verdict} ({row.status}), not {'/'.join(case.verdicts)}; "
                      f"{culprit}; {row.detail or row.message}"[:400], flush=True)  # fmt: skip
            elif case.blame not in (None, row.blame):
                print(f"BLAME {platform} {case.name}: {row.blame}, not {case.blame}; {row.detail}"[:400], flush=True)
    for (platform, expected, right), count in sorted(tally.items()):
        print(f"{platform:40} {expected:8} {'right' if right else 'WRONG':6} {count}")
    print(f"{unblamed} findings that blame another side than the case does")
    print(f"{len(cases) - wrong} of {len(cases)} right in {time.perf_counter() - started:.0f} s")
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1))
    return 1 if wrong else 0


def all_cases() -> list[Case]:
    """Every case, of all makes."""
    return [*ORT_OV, *TORCH, *RECORDS]


def judged(cases: list[Case], platform: str) -> list[Row]:
    """One row per case, in order."""
    with tempfile.TemporaryDirectory() as directory:
        store = TensorStore(directory)
        subjects = [Subject(c.name, lambda c=c: capture(c.program, c.args, tensors=store)) for c in cases]
        report = diff_many(subjects, [platform], settings=RunSettings(trace=False), tensors=store)
    by_name = {row.model: row for row in report.rows}
    for refused in report.refused:
        print(f"REFUSED {refused.source}: {refused.reason}", flush=True)
        by_name[refused.source] = Row(refused.source, platform, "refused", None, detail=refused.reason)  # pyright: ignore[reportArgumentType] # a word of this script's own
    return [by_name[c.name] for c in cases]


if __name__ == "__main__":
    raise SystemExit(main())
