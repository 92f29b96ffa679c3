"""Plants faults in the source, one at a time, and counts those that the tests find.

    python tools/plant_faults.py --seed 1 --count 60 --package mindgap > before.json
    python tools/plant_faults.py --seed 1 --count 60 --package mindgap --list    # only names them

A fault is one change in a file: an operator of a comparison, a number, or a branch that is taken where it was not. The
tests are those of the file's room (tests/PACKAGE/ROOM), without the nightly ones, on a copy of `src`. A fault is found
where a test fails or does not end in time.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 900
_OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of one file. `line`: counted from 1. `before`, `after`: the text of the expression."""

    file: str
    line: int
    kind: str
    before: str
    after: str


def faults(file: Path, text: str) -> Iterator[tuple[Fault, str]]:
    """Gives each fault that a file can have, with the changed text."""
    name = str(file.relative_to(ROOT))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in _OTHER:
                other = ast.Compare(node.left, [_OTHER[type(operator)]()], node.comparators)
                yield _changed(name, text, node, "comparison", f"({ast.unparse(other)})")
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                yield _changed(name, text, node, "number", repr(value + 1 if isinstance(value, int) else value * 2))
            case ast.If(test=test) | ast.IfExp(test=test):
                yield _changed(name, text, test, "branch", f"(not ({ast.unparse(test)}))")


def _changed(name: str, text: str, node: ast.expr, kind: str, after: str) -> tuple[Fault, str]:
    lines = text.encode().split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    assert node.end_lineno is not None and node.end_col_offset is not None
    start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
    whole = text.encode()
    before = whole[start:end].decode()
    return Fault(name, node.lineno, kind, before, after), (whole[:start] + after.encode() + whole[end:]).decode()


def drawn(package: str, seed: int, count: int) -> list[tuple[Fault, str]]:
    """Draws faults: first a file by its length, then one of the three kinds, then a place."""
    rng = random.Random(seed)
    files = sorted((ROOT / "src" / package).rglob("*.py"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    found: list[tuple[Fault, str]] = []
    while len(found) < count:
        (number,) = rng.choices(range(len(files)), [len(text) for text in texts])
        kind = rng.choice(["comparison", "number", "branch"])
        places = [each for each in faults(files[number], texts[number]) if each[0].kind == kind]
        if places and (chosen := rng.choice(places)) not in found:
            found.append(chosen)
    return found


def tests_of(file: str) -> Path:
    """Returns the folder of the tests of a file: the nearest one that there is."""
    folder = ROOT / "tests" / Path(file).relative_to("src").parent
    while not folder.is_dir():
        folder = folder.parent
    return folder


def is_found(fault: Fault, text: str) -> bool:
    """Returns whether the tests of its room find a fault."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", source := Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / fault.file).write_text(text, encoding="utf-8")
        settings = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not nightly", "-p", "no:cacheprovider"]
        try:
            ran = subprocess.run([*command, str(tests_of(fault.file))], cwd=ROOT, env=settings, timeout=SECONDS,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            return True
    return ran.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--package", default="mindgap")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    rows = []
    for fault, text in drawn(options.package, options.seed, options.count):
        rows.append({**asdict(fault), "found": None if options.list else is_found(fault, text)})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    json.dump(rows, sys.stdout, indent=1)
    if not options.list:
        print(f"\n{sum(bool(row['found']) for row in rows)} of {len(rows)} planted faults found", file=sys.stderr)


if __name__ == "__main__":
    main()
