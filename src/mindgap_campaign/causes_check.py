"""Runs the reproducers of causes or of a ledger again, for example with new versions of the runtimes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from mindgap.findings.causes.files import FILE_NAME, read_causes
from mindgap.findings.causes.ledger import Ledger
from mindgap.findings.reduction.files import read_summary
from mindgap.findings.reduction.reproducer import run_script, says_fault
from mindgap.graph import MindgapError
from mindgap.graph.model_file import SUFFIX
from mindgap.platforms.environments import Host
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment, BackendWithoutEnvironment
from mindgap.platforms.registry import find

Answer = Literal["still there", "fixed", "not checked"]
_LAST: Final = 300


@dataclass(frozen=True, slots=True)
class ListedReproducer:
    """A script, or a model file with its summary next to it. `name`: the title of its cause. `script`: None where a
    ledger names none. `platform`: None where it is not known."""

    name: str
    script: Path | None
    platform: PlatformName | None = None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The result of a reproducer today. `reason`: why it could not be checked; else the versions that it prints."""

    name: str
    script: str
    answer: Answer
    reason: str = ""


def reproducers_of(path: Path) -> Sequence[ListedReproducer]:
    """The scripts of a ledger (a `.toml` file), a `causes.json`, or a directory of scripts.

    Raises `MindgapError` where the path is none of these or holds no cause.
    """
    if path.suffix == ".toml":
        issues = Ledger.load(path).issues
        listed = [
            ListedReproducer(str(issue), path.parent / issue.script if issue.script else None) for issue in issues
        ]
    elif path.is_dir() and not (path / FILE_NAME).exists():
        listed = [ListedReproducer(str(file.relative_to(path)), file) for file in sorted(path.rglob("*.py"))]
    elif path.is_dir() or path.name == FILE_NAME:
        file = path / FILE_NAME if path.is_dir() else path
        shown = [(cause.title, cause.findings[0]) for cause in read_causes(file) if cause.findings]
        listed = [ListedReproducer(title, file.parent / each.script, each.platform) for title, each in shown]
    else:
        raise MindgapError(f"{path} is no ledger (.toml), no {FILE_NAME} and no directory of scripts")
    if not listed:
        raise MindgapError(f"{path} holds no reproducer: nothing was checked")
    return listed


def check_reproducers(
    reproducers: Iterable[ListedReproducer], *, python: str | None = None, timeout_s: float = 400.0,
    jobs: int = 1, progress: Callable[[Reproduction], None] | None = None,
) -> list[Reproduction]:  # fmt: skip
    """Runs each script by itself, `jobs` at a time, each at most `timeout_s` seconds; a model file with mindgap.

    `python`: the interpreter of scripts; None for that of the environment in which the script's platform runs. The exit
    status is the answer: 1 still there, 0 fixed, 2 it could not check. Raises `MindgapError` where `python` cannot be
    run.
    """
    python = _absolute(python) if python else None
    try:
        run_script([python or sys.executable, "-c", ""], ".", timeout_s)
    except OSError as error:
        raise MindgapError(f"--python {python} cannot be run: {error.strerror}") from None

    def one(reproducer: ListedReproducer) -> Reproduction:
        reproduction = _reproduce(reproducer, python, timeout_s)
        if progress is not None:
            progress(reproduction)
        return reproduction

    with ThreadPoolExecutor(jobs, "mindgap-check") as threads:
        return list(threads.map(one, reproducers))


def _reproduce(one: ListedReproducer, python: str | None, timeout_s: float) -> Reproduction:
    if one.script is None:
        return Reproduction(one.name, "", "not checked", "the ledger names no script")
    script = str(one.script)
    if not one.script.is_file():
        return Reproduction(one.name, script, "not checked", "there is no such file")
    try:
        model = one.script.suffix == SUFFIX
        command = (
            _command(one.script) if model else [python or _interpreter_of(one.platform), str(one.script.resolve())]
        )
        status, printed, errors = run_script(command, str(one.script.parent), timeout_s)
    except (MindgapError, OSError) as error:
        return Reproduction(one.name, script, "not checked", str(error))
    if says_fault(status, printed, errors) or (model and status == 1):
        return Reproduction(one.name, script, "still there", _head(printed))
    if status == 0:
        return Reproduction(one.name, script, "fixed", _head(printed))
    last = (errors.strip() or printed.strip() or "it printed nothing").splitlines()[-1]
    return Reproduction(one.name, script, "not checked", f"exit status {status}: {last}"[:_LAST])


def _command(file: Path) -> list[str]:
    """The command that runs a model file, by the summary next to it. Raises `MindgapError` where there is none."""
    about = file.with_suffix(".json")
    try:
        command = read_summary(about).command
    except (OSError, ValueError, TypeError):
        command = ""
    if not command:
        raise MindgapError(f"there is no {about.name} beside it, which has its command")
    return [sys.executable, "-m", *shlex.split(command)]


def _absolute(python: str) -> str:
    """The path of an interpreter from any folder, since each script runs in a separate folder. A link is kept: the
    interpreter of an environment is one. A bare name is looked for by the system."""
    return os.path.abspath(python) if os.path.dirname(python) else python


def _interpreter_of(platform: PlatformName | None) -> str:
    """The interpreter of the environment in which a platform runs. Raises `MindgapError` where it runs in none."""
    if platform is None:
        return sys.executable
    backend, _ = find(platform)
    if isinstance(backend, BackendWithoutEnvironment):
        raise MindgapError(backend.probe().reason)
    if not isinstance(backend, BackendInEnvironment):
        return sys.executable
    if isinstance(backend.where, Host):
        raise MindgapError(f"its platform is on host {backend.where.name}: run the script there")
    return backend.where.python


def _head(printed: str) -> str:
    """The first line that a script prints: the versions."""
    return next(iter(printed.splitlines()), "")[:_LAST]


def counts(found: Sequence[Reproduction]) -> dict[Answer, int]:
    """How many have each answer."""
    answers: tuple[Answer, ...] = ("still there", "fixed", "not checked")
    return {answer: sum(each.answer == answer for each in found) for answer in answers}
