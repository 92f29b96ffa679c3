"""Runs the everyday programs and files of `tests/everyday`, and compares the rows with what was measured
without mindgap.

    python benchmarks/everyday.py                       # all, prints wrong rows; status 1 where there are any new ones
    python benchmarks/everyday.py --only caches: file:  # of these names
    python benchmarks/everyday.py --write               # also writes docs/everyday.md and tests/everyday/wrong.json

Several programs go into one command, as a user's do. `tests/everyday/measure_truth.py` makes `truth.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parents[1] / "tests" / "everyday"
sys.path[0] = str(HERE.parent)  # in place of this folder, where `everyday` is this file

from everyday import suite  # noqa: E402

PAGE = Path(__file__).parents[1] / "docs" / "everyday.md"
#: Sources of one command.
TOGETHER = 40


def commands(names: Sequence[str], folder: Path) -> list[tuple[list[str], list[str], list[str]]]:
    """The commands for these things: names, sources and further options of each."""
    plain = [name for name in names if not suite.options_of(name, folder)]
    groups = [plain[n : n + TOGETHER] for n in range(0, len(plain), TOGETHER)]
    groups += [[name] for name in names if name not in plain]
    return [
        (group, [suite.source_of(name, folder) for name in group], suite.options_of(group[0], folder))
        for group in groups
    ]


def run(names: Sequence[str], platforms: Sequence[str], folder: Path) -> suite.Answers:
    """Runs things in as few commands as may be, and returns what mindgap answers for each thing and platform."""
    found: suite.Answers = {}
    for group, sources, options in commands(names, folder):
        asked = [part for platform in platforms for part in ("-p", platform)]
        command = [str(Path(sys.executable).parent / "mindgap"), "diff", *sources, *asked, *options, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1, 2) or "Traceback" in done.stderr:
            print(
                f"status {done.returncode}: {group[0]} and {len(group) - 1} others\n{done.stderr[-2000:]}",
                file=sys.stderr,
            )
        report = json.loads(done.stdout) if done.stdout.strip() else {"rows": [], "refused": []}
        found |= suite.answers(report, dict(zip(sources, group, strict=True)), platforms)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("-p", "--platform", action="append", default=[])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.write and given.only != [""]:
        parser.error("--write writes the page of all things: leave out --only")
    platforms = given.platform or suite.PLATFORMS
    truth, known = suite.truth(), suite.wrong()
    names = [name for name in truth if name.startswith(tuple(given.only))]
    with tempfile.TemporaryDirectory() as folder:
        suite.build_files([name for name in names if name.startswith("file:")], Path(folder))
        found = run(names, platforms, Path(folder))
    new = 0
    for name, platform, answer, right in suite.wrong_rows(found, truth):
        is_known = known.get(name, {}).get(platform) == answer.word
        new += not is_known
        detail = "(known)" if is_known else answer.detail[:150]
        print(f"{name:45} {platform:28} {answer.word:12} right: {right:10} {detail}")
    rows = sum(len(each) for each in found.values())
    wrong = sum(1 for _ in suite.wrong_rows(found, truth))
    print(f"{len(found)} things, {rows} rows, {wrong} wrong, {new} of them new")
    if given.write:
        suite.WRONG.write_text(json.dumps(suite.as_wrong(found, truth), indent=1) + "\n")
        PAGE.write_text(suite.page(found, truth, platforms))
    sys.exit(bool(new))


if __name__ == "__main__":
    main()
