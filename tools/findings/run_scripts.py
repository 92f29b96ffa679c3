"""Writes the scripts of listed causes anew from their case parts, runs them, and keeps what they print.

    python tools/findings/run_scripts.py docs/findings [SCRIPT…] [-j 2] [--no-native] [--keep-text]
    python tools/findings/run_scripts.py docs/findings --version onnxruntime=PATH/bin/python
    python tools/findings/run_scripts.py docs/findings SCRIPT… --vulkan "NVIDIA H200" ICD.json [--python PYTHON]

Each script runs in the environment of its platform, and its second reproducer in the runtime's own format too, each
twice, in two processes. What they print goes into `runs.json`: `answer` and `printed` are of the first process,
`answers` of both, and `printed_again` is what the second printed, where that differs; `native_…` likewise. `answer` is
`fault` only where both are. `--version NAME=PYTHON` runs the scripts of one platform (`onnxruntime-cpu`) with
another version of its runtime, and keeps its answer for each. `--vulkan DEVICE ICD` runs copies of scripts whose
software driver is replaced by the Vulkan driver of a device, and keeps the answers as those of the hardware. Exit
status 1 where a script does not show its fault.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from facts import form_of, read_facts

from mindgap.findings.causes import FILE_NAME, Cause, read_causes
from mindgap.findings.reduction.reproducer import RUNS, every_case_shows, run_script, says_fault
from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.findings.script.form import script_source
from mindgap.graph import MindgapError

#: Of one run. A script that looks for a hang ends by itself, after the limit that it names.
_TIMEOUT_S = 3000.0
_PATHS = re.compile(r"(?:/[\w.+-]+)+/(?=site-packages/|docs/findings/|lib/python3)")
#: What a library of Qualcomm's simulator prints, on standard output too.
_LOGGED = re.compile(r" ?# LIBNATIVE: [^\n]*? behavior\.\n?")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_SOFTWARE_DRIVER = re.compile(r"""(["'])[^"']*(?:swiftshader|lvp)_icd[^"']*\.json\1""")
_LOCK = threading.Lock()


class Runs:
    """What was printed, by script, in `runs.json`. It is read and saved again at each run, for runs side by side."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "runs.json"

    def note(self, script: str, **found: Any) -> None:
        with _LOCK, (self._file.parent / FILE_NAME).open(encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            by_script = json.loads(self._file.read_text(encoding="utf-8")) if self._file.exists() else {}
            entry = by_script.setdefault(script, {})
            for key, value in found.items():
                entry[key] = {**entry.get(key, {}), **value} if key in ("versions", "hardware") else value
            for key in [key for key, value in found.items() if value is None]:
                del entry[key]
            text = json.dumps(dict(sorted(by_script.items())), indent=1, ensure_ascii=False)
            self._file.write_text(text + "\n", encoding="utf-8")


def run(python: str, script: Path) -> tuple[str, str]:
    """Whether a script shows its fault with each case, and what it printed: (answer, text)."""
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    status, printed, errors = run_script([python or sys.executable, str(script)], str(script.parent), _TIMEOUT_S)
    if says_fault(status, printed, errors):
        answer = "fault" if every_case_shows(printed) else "fault in some cases"
    else:
        answer = {0: "no fault", 2: "not checked"}.get(status, f"exit status {status}")
    text = printed if status in (0, 1) else printed + errors[-2000:]
    return answer, _PATHS.sub("", _LOGGED.sub("", _COLOURS.sub("", text)))


def run_twice(python: str, script: Path, prefix: str = "") -> dict[str, Any]:
    """Runs a script in two processes: the entries of `runs.json`, their names behind `prefix`. None: no such entry."""
    (first, printed), (second, again) = [run(python, script) for _ in range(RUNS)]
    answer = first if first == second else f"{first}, then {second}"
    found = {"answer": answer, "printed": printed, "answers": [first, second]}
    found["printed_again"] = None if again == printed else again
    return {prefix + key: value for key, value in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("scripts", nargs="*", help="scripts, relative to the directory (default: all)")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--keep-text", action="store_true", help="run the scripts as they are")
    parser.add_argument("--no-native", action="store_true", help="leave out the second reproducers")
    parser.add_argument("--vulkan", nargs=2, metavar=("DEVICE", "ICD"), help="a device and the file of its driver")
    parser.add_argument("--python", help="with --vulkan: the Python that has the runtime (default: the environment's)")
    parser.add_argument("--version", metavar="FOLDER=PYTHON", help="run those of one platform with another version")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    facts, runs = read_facts(directory), Runs(directory)
    causes = {cause.findings[0].script: cause for cause in read_causes(directory / FILE_NAME)}
    folder, _, python = (arguments.version or "").partition("=")
    chosen = [name for name in causes if name in (arguments.scripts or causes) and name.startswith(folder)]
    if not chosen:
        print("no listed script was chosen", file=sys.stderr)
        return 2

    def one(name: str) -> bool:
        if arguments.vulkan:
            target = arguments.python or script_platform_of(causes[name].findings[0].platform).python
            native = facts[name].native if name in facts and not arguments.no_native else ""
            found = _on_vulkan(target, directory / name, native, arguments.vulkan[1])
            runs.note(name, hardware={arguments.vulkan[0]: found})
            answers = [*found["answers"], *found.get("native_answers", [])]
            answer = next((each for each in answers if each != "fault"), "fault")
        elif python:
            answer, printed = run(os.path.abspath(python), directory / name)
            versions = next(iter(printed.splitlines()), "")
            runs.note(name, versions={versions: answer} if answer.startswith(("fault", "no fault")) else {})
        else:
            answer = _renewed(directory, causes[name], facts, runs, arguments.keep_text, not arguments.no_native)
        print(f"{answer}: {name}", flush=True)
        return answer == "fault"

    with ThreadPoolExecutor(arguments.jobs) as threads:
        return int(not all(list(threads.map(one, chosen))))


def _on_vulkan(python: str, script: Path, native: str, driver: str) -> dict[str, Any]:
    """Runs copies of a script and of its second reproducer twice each, with another Vulkan driver.

    Raises `MindgapError` for a script that names no software driver: it would run on the same device as ever.
    """
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for prefix, file in (("", script), *([("native_", script.parent / native)] if native else [])):
            text, count = _SOFTWARE_DRIVER.subn(lambda _: repr(driver), file.read_text(encoding="utf-8"))
            if count == 0:
                raise MindgapError(f"{file}: names no Vulkan driver of software")
            copy = Path(folder) / file.name
            copy.write_text(text, encoding="utf-8")
            ran = run_twice(python, copy, prefix)
            found |= {prefix + "answers": ran[prefix + "answers"], prefix + "printed": ran[prefix + "printed"]}
    return found


def _renewed(directory: Path, cause: Cause, facts: Any, runs: Runs, keep_text: bool, with_native: bool) -> str:
    """Writes a script anew, if it has facts, and runs it and its second reproducer."""
    name = cause.findings[0].script
    script, given = directory / name, facts.get(name)
    if given is not None and not keep_text:
        with _LOCK:
            text = script_source(form_of(cause, given, script.read_text(encoding="utf-8")))
        script.write_text(text, encoding="utf-8")
    python = script_platform_of(cause.findings[0].platform).python
    found = run_twice(python, script)
    answer = str(found["answer"])
    if given is not None and given.native and with_native:
        found |= run_twice(python, script.parent / given.native, "native_")
        native = str(found["native_answer"])
        answer = answer if native == "fault" or answer != "fault" else f"{answer}, native: {native}"
    runs.note(name, **found)
    return answer


if __name__ == "__main__":
    sys.exit(main())
