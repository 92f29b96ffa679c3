"""Runs the reproducers of causes or of a ledger again, for example with new versions of the runtimes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from mindgap.causes.files import FILE_NAME, read_causes
from mindgap.causes.ledger import Ledger
from mindgap.graph import MindgapError
from mindgap.reduction.reproducer import FAULT, run_script

Answer = Literal["still there", "fixed", "not checked"]
_LAST: Final = 300


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What a reproducer tells today. `reason`: why it could not be checked; else the versions that it prints."""

    name: str
    script: str
    answer: Answer
    reason: str = ""


def reproducers_of(path: Path) -> Sequence[tuple[str, Path | None]]:
    """The title and the script of each cause in a ledger (a `.toml` file), a `causes.json`, or a directory of scripts.

    Of a cause without a script, None. Raises `MindgapError` where the path is none of these or holds no cause.
    """
    if path.suffix == ".toml":
        issues = Ledger.load(path).issues
        found = [(str(issue), path.parent / issue.script if issue.script else None) for issue in issues]
    elif path.is_dir() and not (path / FILE_NAME).exists():
        found = [(str(file.relative_to(path)), file) for file in sorted(path.rglob("*.py"))]
    elif path.is_dir() or path.name == FILE_NAME:
        file = path / FILE_NAME if path.is_dir() else path
        causes = read_causes(file)
        found = [(cause.title, file.parent / cause.findings[0].script) for cause in causes if cause.findings]
    else:
        raise MindgapError(f"{path} is no ledger (.toml), no {FILE_NAME} and no directory of scripts")
    if not found:
        raise MindgapError(f"{path} holds no reproducer: nothing was checked")
    return found


def check_reproducers(
    reproducers: Iterable[tuple[str, Path | None]], *, python: str = sys.executable, timeout_s: float = 400.0,
    jobs: int = 1, progress: Callable[[Reproduction], None] | None = None,
) -> list[Reproduction]:  # fmt: skip
    """Runs each script by itself with an interpreter, `jobs` at a time, each at most `timeout_s` seconds.

    A script's exit status is its answer: 1 still there, 0 fixed, 2 it could not check. Raises `MindgapError` where the
    interpreter cannot be run.
    """
    try:
        run_script([python, "-c", ""], ".", timeout_s)
    except OSError as error:
        raise MindgapError(f"--python {python} cannot be run: {error.strerror}") from None

    def one(reproducer: tuple[str, Path | None]) -> Reproduction:
        found = _reproduce(*reproducer, python, timeout_s)
        if progress is not None:
            progress(found)
        return found

    with ThreadPoolExecutor(jobs, "mindgap-check") as threads:
        return list(threads.map(one, reproducers))


def _reproduce(name: str, script: Path | None, python: str, timeout_s: float) -> Reproduction:
    if script is None:
        return Reproduction(name, "", "not checked", "the ledger names no script")
    if not script.is_file():
        return Reproduction(name, str(script), "not checked", "there is no such file")
    status, printed, errors = run_script([python, str(script.resolve())], str(script.parent), timeout_s)
    # An uncaught exception ends with status 1 as well.
    if status == 1 and (FAULT in printed.splitlines() or "Traceback" not in errors):
        return Reproduction(name, str(script), "still there", _head(printed))
    if status == 0:
        return Reproduction(name, str(script), "fixed", _head(printed))
    last = (errors.strip() or printed.strip() or "it printed nothing").splitlines()[-1]
    return Reproduction(name, str(script), "not checked", f"exit status {status}: {last}"[:_LAST])


def _head(printed: str) -> str:
    """The first line that a script prints: the versions."""
    return next(iter(printed.splitlines()), "")[:_LAST]


def counts(found: Sequence[Reproduction]) -> dict[Answer, int]:
    """How many have each answer."""
    answers: tuple[Answer, ...] = ("still there", "fixed", "not checked")
    return {answer: sum(each.answer == answer for each in found) for answer in answers}
