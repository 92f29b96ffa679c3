"""Writes docs/testing.md: what runs in CI and what in nightly alone, by room, from the marks of the tests.

python tools/testing_page.py           # status 1 where the page is not what the marks give
python tools/testing_page.py --write
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "testing.md"
HEAD = """# Testing

Made by `python tools/testing_page.py --write` from the marks of the tests.

`make test` runs what is not `nightly`; `make nightly` runs all. Of a test with the mark `sampled(n)`, CI runs n of its
cases, and nightly the rest. Tests of `src/PACKAGE/ROOM` lie in `tests/PACKAGE/ROOM`. `make test-core`, `test-campaign`,
`test-diagnosis`, `test-runtimes`, `test-studies`, `test-surveys` and `test-zoo` run the tests of one package, and those
of all packages together. `tools/plant_faults.py` counts which planted faults the tests find.

| room | cases in CI | cases in nightly alone | tests whose first cases are in CI |
|---|---|---|---|
"""


def collected(mark: str) -> list[str]:
    """Returns the names of the cases with a mark expression, as pytest collects them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", mark, "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 5):
        raise SystemExit(ran.stdout[-2000:])
    return [line for line in ran.stdout.splitlines() if "::" in line and line.startswith("tests/")]


def purpose(file: str) -> str:
    """Returns the first sentence of a test module's docstring."""
    text = ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).rstrip(".")


def page() -> str:
    """Returns the text of docs/testing.md."""
    in_ci, nightly = collected("not nightly"), collected("nightly")
    rooms = defaultdict[str, list[list[str]]](lambda: [[], []])
    for place, cases in enumerate((in_ci, nightly)):
        for case in cases:
            rooms[str(Path(case.partition("::")[0]).parent)][place].append(case)
    tests_in_ci = {case.partition("[")[0] for case in in_ci}
    lines = [
        f"| `{room}` | {len(ci):,} | {len(late):,} | {len({c.partition('[')[0] for c in late} & tests_in_ci)} |"
        for room, (ci, late) in sorted(rooms.items())
    ]
    lines.append(
        f"| all | {len(in_ci):,} | {len(nightly):,} | {len({c.partition('[')[0] for c in nightly} & tests_in_ci)} |"
    )
    alone = defaultdict[str, set[str]](set)
    for case in nightly:
        if (test := case.partition("[")[0]) not in tests_in_ci:
            file, _, name = test.partition("::")
            alone[file].add(name)
    lines += [
        "",
        "## Tests of nightly alone",
        "",
        "By file: what it is for, and the tests that CI does not run at all.",
        "",
    ]
    for file, names in sorted(alone.items()):
        listed = ", ".join(name.removeprefix("test_").replace("_", " ") for name in sorted(names))
        lines.append(f"- `{file.removeprefix('tests/')}` ({purpose(file)}): {listed}")
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    text = page()
    if parser.parse_args().write:
        PAGE.write_text(text, encoding="utf-8")
    elif text != PAGE.read_text(encoding="utf-8"):
        print("docs/testing.md is not what the marks give: python tools/testing_page.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
