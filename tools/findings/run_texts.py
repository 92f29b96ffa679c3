"""Runs the scripts of the texts to file, and compares what they print with what the listed scripts printed.

    python tools/findings/run_texts.py docs/findings [SCRIPT…] [-j 2]

Each runs in the environment of its platform. A script in the runtime's own format has to print every line that the
listed one printed (`runs.json`), but for versions and its answer; where it does not catch the failure, the last of
these lines has to be in the traceback, or a signal ends it. Another has to print two different results, or to end as
the listed one did: with the failure. Prints `as listed`, or what differs, and how many lines each has; exit status 1
where one differs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from listing import Listed, read_listing
from plain_script import LINES
from text_to_file import text_to_file

from mindgap.findings.script.culprit_script import script_platform_of

_TIMEOUT_S = 900
_SCRIPT = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What differs between two runs of one script: the names of temporary files, addresses, times.
_CHANGING = re.compile(r"/tmp/\S*|0x[0-9a-f]+|\d+(?:\.\d+)? ?m?s\b|\x1b\[[\d;]*m|/?(?:[\w.+-]+/)+")


def script_of(each: Listed, directory: Path) -> str:
    """The script of the text to file of a cause."""
    found = _SCRIPT.search(text_to_file(each, directory))
    assert found, each.script
    return found[1]


def differs(each: Listed, script: str) -> str:
    """Runs a script, and returns what is not as listed, or nothing."""
    python = script_platform_of(each.cause.findings[0].platform).python or sys.executable
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "text.py")
        file.write_text(script, encoding="utf-8")
        settings = {**os.environ, "OMP_NUM_THREADS": "2"}
        ran = subprocess.run([python, str(file)], cwd=folder, env=settings, capture_output=True, text=True,
                             errors="replace", timeout=_TIMEOUT_S, check=False)  # fmt: skip
    end = f"status {ran.returncode}: {ran.stderr[-300:]}"
    if each.facts.native:
        listed = [line for line in str(each.runs.get("native_printed", "")).splitlines()[1:] if "FAULT" not in line]
        printed = {_CHANGING.sub("", line).strip() for line in (ran.stdout + ran.stderr).splitlines()}
        missing = [line for line in listed if _CHANGING.sub("", line).strip() not in printed]
        missing = [line for line in missing if not any(line in each for each in printed)]  # the words of a message
        uncaught = each.cause.damage == "crash" and ran.returncode < 0
        message = _words(next((line for line in reversed(listed) if line.strip()), ""))
        uncaught |= ran.returncode > 0 and message[-60:] in _words(ran.stderr)
        return f"not printed: {missing[0]}; {end}" if missing and not uncaught else ""
    if each.cause.damage in ("failure", "crash", "hang"):
        return "" if ran.returncode else f"it does not fail: {ran.stdout[-300:]}"
    expected, _, actual = ran.stdout.partition("\nactual ")
    return "" if actual and expected.removeprefix("expected ") != actual.strip() else f"{ran.stdout[-300:]}{end}"


def _words(text: str) -> str:
    """The words of a message, without what stands before the last colon, such as `raised:`."""
    return " ".join(re.findall(r"\w+", text.rpartition(": ")[2] if "\n" not in text else text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("scripts", nargs="*", help="listed scripts, relative to the directory (default: all)")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    arguments = parser.parse_args()
    listed, _ = read_listing(arguments.directory)
    chosen = [each for each in listed if each.script in arguments.scripts or not arguments.scripts]

    def one(each: Listed) -> tuple[bool, int]:
        script = script_of(each, arguments.directory)
        try:
            problem = differs(each, script)
        except subprocess.TimeoutExpired:
            problem = "" if each.cause.damage == "hang" else "it does not end"
        count = len(script.splitlines())
        print(f"{each.script}: {count} lines, {problem or 'as listed'}", flush=True)
        return bool(problem), count

    with ThreadPoolExecutor(arguments.jobs) as threads:
        found = list(threads.map(one, chosen))
    wrong, longer = sum(each for each, _ in found), sum(count > LINES for _, count in found)
    print(f"{len(chosen) - wrong} of {len(chosen)} as listed; {len(chosen) - longer} of at most {LINES} lines")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
