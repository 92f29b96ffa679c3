"""Publishes that a session runs in a campaign's directory, and its progress, in a file for other processes.

`session.json` is there from the first second of a session to its end, and written anew every two seconds. One that a
kill left behind is known by its process, which is gone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psutil

from mindgap.campaign.state.directory import write_whole
from mindgap.campaign.state.steps import StepTracker
from mindgap.graph import MindgapError

SESSION: Final = "session.json"
_EVERY_S: Final = 2.0
#: Of a session on another machine nothing is known but when it wrote last.
_QUIET_S: Final = 120.0


@dataclasses.dataclass(frozen=True, slots=True)
class RunningSession:
    """A session that runs. `since`: when it began, in UTC; `seconds`: how long ago that was.

    `step`: what it is doing, `done` of `total` (0: not known). Once cases run: `cases` of `planned`, `rows`, of which
    `judging` more wait for a judge, and `eta_s`, None where nothing is known of the time left.
    """

    pid: int
    host: str
    since: str
    seconds: float
    step: str
    done: int
    total: int
    cases: int | None
    planned: int | None
    rows: int | None
    judging: int | None
    eta_s: float | None


@contextmanager
def published(folder: Path, steps: StepTracker) -> Generator[None]:
    """Keeps the file while the session runs. Raises `MindgapError` where another session runs in the directory."""
    other = running(folder)
    if other is not None:
        raise MindgapError(
            f"{folder}: a session runs there already, process {other.pid} on {other.host} since {other.since} "
            f"(`mindgap campaign status {folder}` shows how far it is)"
        )
    began, over = time.time(), threading.Event()
    _write(folder, began, steps)
    thread = threading.Thread(target=_keep, args=(folder, began, steps, over), name="mindgap-session", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        (folder / SESSION).unlink(missing_ok=True)


def running(folder: str | Path) -> RunningSession | None:
    """The session that runs in a campaign's directory; None where there is none, or a kill ended it."""
    try:
        told: dict[str, Any] = json.loads((Path(folder) / SESSION).read_bytes())
        began, moment, of_process = told.pop("began"), told.pop("moment"), told.pop("process")
        found = RunningSession(since=_moment(began), seconds=time.time() - began, **told)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MindgapError(f"{Path(folder) / SESSION} cannot be read ({error}): remove it if no session runs") from None
    if found.host != platform.node():
        return found if time.time() - moment < _QUIET_S else None
    return found if _process(found.pid) == of_process else None


def _keep(folder: Path, began: float, steps: StepTracker, over: threading.Event) -> None:
    while not over.wait(_EVERY_S):
        try:
            _write(folder, began, steps)
        except MindgapError:
            # A full disk: the session's own rows do not fit either, and say so. The next turn tries again.
            continue


def _write(folder: Path, began: float, steps: StepTracker) -> None:
    step, pid = steps.now(), os.getpid()
    progress = step.running
    told = {
        "pid": pid, "host": platform.node(), "process": _process(pid), "began": began, "moment": time.time(),
        "step": step.name, "done": step.done, "total": step.total,
        "cases": progress and progress.cases, "planned": progress and progress.planned,
        "rows": progress and progress.rows,
        "judging": progress and progress.judging, "eta_s": progress and progress.eta_s,
    }  # fmt: skip
    write_whole(folder / SESSION, json.dumps(told, indent=1).encode())


def _process(pid: int) -> float | None:
    """When the process with this number began; None where there is none, or one that has ended."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
