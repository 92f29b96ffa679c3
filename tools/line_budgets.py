"""Counts the lines of each package, and fails where one is over its budget.

    python tools/line_budgets.py           # a line for each package; status 1 where one is over its budget
    python tools/line_budgets.py --rooms   # also the folders of each package

A change may raise a budget in `tools/budgets.toml`, with a line in `docs/decisions.md` that says why.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE.parent / "src"


def counts(folder: Path) -> Counter[str]:
    """Returns the lines of Python by room, the first folder or module below a package."""
    found = Counter[str]()
    for file in folder.rglob("*.py"):
        room = file.relative_to(folder).parts[0]
        found[room] += file.read_text(encoding="utf-8").count("\n")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", action="store_true")
    rooms = parser.parse_args().rooms
    budgets: dict[str, int] = tomllib.loads((HERE / "budgets.toml").read_text(encoding="utf-8"))["lines"]
    packages = {folder.name: counts(folder) for folder in sorted(SOURCES.glob("mindgap*"))}
    over = 0
    for name, found in packages.items():
        total, budget = sum(found.values()), budgets.get(name, 0)
        over += total > budget
        print(f"{name:18} {total:7,} of {budget:7,}{'  OVER ITS BUDGET' if total > budget else ''}")
        for room, lines in sorted(found.items(), key=lambda item: -item[1]) if rooms else ():
            print(f"    {room:22} {lines:7,}")
    print(f"{'all':18} {sum(sum(found.values()) for found in packages.values()):7,} of {sum(budgets.values()):7,}")
    if gone := sorted(set(budgets) - set(packages)):
        print(f"budgets.toml has budgets for packages that are not there: {', '.join(gone)}")
    return 1 if over or gone else 0


if __name__ == "__main__":
    sys.exit(main())
