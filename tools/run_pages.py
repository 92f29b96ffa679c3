"""Runs the commands of a page in a folder that has `examples` alone, and compares their output with the page's.

    python tools/run_pages.py README.md docs/ways/*.md            # status 1 where a page differs
    python tools/run_pages.py docs/ways/move-a-model.md --write   # writes the outputs into the page

A block of Python or TOML whose first line is `# NAME` is written to the file NAME. In a `console` block, a line with
`$ ` is a command for bash, and the lines after it are output. Each of these has to be in the output, in this order;
numbers and spaces may differ, and a line `…` stands for any lines. A block without `console` is a record of a run
elsewhere.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Numbers, and digests of at least six hexadecimal digits.
CHANGING = re.compile(r"\b[0-9a-f]*\d[0-9a-f]{5,}\b|\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
SECONDS = 300
EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, and the output that the page shows."""

    text: str
    shown: tuple[str, ...]


def normal(line: str) -> str:
    """Returns the line without what changes between runs."""
    return " ".join(CHANGING.sub("#", line).split())


def commands(block: str) -> list[Command]:
    """Returns the commands of a `console` block. A command goes on after a backslash."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    found: list[Command] = []
    for part in parts:
        lines = part.rstrip("\n").split("\n")
        ends = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
        found.append(Command("\n".join(lines[: ends + 1]), tuple(lines[ends + 1 :])))
    return found


def output(command: str, folder: Path) -> list[str]:
    """Runs a command with this interpreter's programs first on the path, and returns the lines of standard output."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = {**os.environ, "PATH": path, "COLUMNS": "100", "MINDGAP_HOME": str(folder / ".home")}
    ran = subprocess.run(["bash", "-c", command], cwd=folder, env=settings, capture_output=True, text=True,
                         timeout=SECONDS, check=False)  # fmt: skip
    return ran.stdout.rstrip("\n").split("\n") if ran.stdout or ran.returncode in (0, 1) else ran.stderr.split("\n")


def missing(shown: tuple[str, ...], given: list[str]) -> list[str]:
    """Returns the lines of the page that the output does not have in this order."""
    rest: Iterator[str] = iter([normal(line) for line in given])
    absent = [line for line in shown if normal(line) not in ("", "…") and normal(line) not in rest]
    return absent[:1]


def run_page(text: str, folder: Path, write: bool) -> tuple[str, list[str]]:
    """Returns the page, with its outputs where `write`, and a line for each command whose output differs."""
    wrong: list[str] = []
    pieces: list[str] = []
    end = 0
    (folder / "examples").symlink_to(EXAMPLES)
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        pieces.append(text[end : block.start()])
        made = block[0]
        first = body.partition("\n")[0]
        if language in ("python", "toml") and (name := re.fullmatch(r"# (\S+\.\w+)", first)):
            (folder / name[1]).write_text(body, encoding="utf-8")
        elif language == "console":
            made = "```console\n"
            for command in commands(body):
                given = output(command.text, folder)
                if absent := missing(command.shown, given):
                    wrong.append(f"$ {command.text}\n  not in the output: {absent[0]}\n  " + "\n  ".join(given[:40]))
                shown = [line.rstrip() for line in given] if write and "…" not in command.shown else command.shown
                made += "\n".join([f"$ {command.text}", *shown]).rstrip("\n") + "\n"
            made += "```"
        pieces.append(made)
        end = block.end()
    return "".join((*pieces, text[end:])), wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    differing = 0
    for page in options.pages:
        with tempfile.TemporaryDirectory() as folder:
            text, wrong = run_page(page.read_text(encoding="utf-8"), Path(folder), options.write)
        if options.write:
            page.write_text(text, encoding="utf-8")
        print(f"{page}: {'as shown' if not wrong else f'{len(wrong)} commands differ'}")
        print("\n".join(wrong))
        differing += bool(wrong) and not options.write
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
