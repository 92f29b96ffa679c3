"""Publishes the progress of a running session in a file in the campaign's directory, for other processes.

`session.json` exists while a session runs, and is rewritten every two seconds. A file that a killed session left behind
is recognised because its process no longer runs.
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

from mindgap.graph import MindgapError
from mindgap_campaign.campaign.state.directory import write_whole
from mindgap_campaign.campaign.state.steps import StepTracker

SESSION: Final = "session.json"
_EVERY_S: Final = 2.0
#: Of a session on another machine nothing is known but that it writes: it is over if it has not for so long.
_QUIET_S: Final = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class RunningSession:
    """A running session. `since`: when it began, in UTC. `seconds`: its duration so far.

    `step`: its current step, with `done` of `total` (0: unknown). Once cases run: `cases` of `planned`, `rows`,
    `judging` (rows that wait for a judge) and `eta_s` (None: unknown).
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
def published(directory: Path, steps: StepTracker) -> Generator[None]:
    """Writes the file while the session runs. Raises `MindgapError` if another session runs in the directory."""
    other = running(directory)
    if other is not None:
        raise MindgapError(
            f"{directory}: a session runs there already, process {other.pid} on {other.host} since {other.since} "
            f"(`mindgap campaign status {directory}` shows how far it is)"
        )
    began, over = time.time(), threading.Event()
    _write(directory, began, steps)
    thread = threading.Thread(target=_keep, args=(directory, began, steps, over), name="mindgap-session", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        (directory / SESSION).unlink(missing_ok=True)


def running(directory: str | Path) -> RunningSession | None:
    """Reads the session that runs in a campaign's directory; None if none runs."""
    try:
        content: dict[str, Any] = json.loads((Path(directory) / SESSION).read_bytes())
        began, moment, of_process = content.pop("began"), content.pop("moment"), content.pop("process")
        # The clock that wrote the file: another machine's may be hours away.
        now = time.time() if content["host"] == platform.node() else moment
        session = RunningSession(since=_moment(began), seconds=now - began, **content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MindgapError(
            f"{Path(directory) / SESSION} cannot be read ({error}): remove it if no session runs"
        ) from None
    if session.host != platform.node():
        return session if _is_rewritten(Path(directory) / SESSION) else None
    return session if _process(session.pid) == of_process else None


def _is_rewritten(file: Path) -> bool:
    """Tells whether a session on another machine still writes its file. Waits for that; compares no clocks."""
    until = time.monotonic() + _QUIET_S
    try:
        before = file.read_bytes()
        while time.monotonic() < until:
            time.sleep(_QUIET_S / 40)
            if file.read_bytes() != before:
                return True
    except FileNotFoundError:
        pass
    return False


def _keep(directory: Path, began: float, steps: StepTracker, over: threading.Event) -> None:
    while not over.wait(_EVERY_S):
        try:
            _write(directory, began, steps)
        except MindgapError:
            # A full disk: the session's own rows do not fit either, and say so. The next turn tries again.
            continue


def _write(directory: Path, began: float, steps: StepTracker) -> None:
    step, pid = steps.now(), os.getpid()
    progress = step.running
    content = {
        "pid": pid, "host": platform.node(), "process": _process(pid), "began": began, "moment": time.time(),
        "step": step.name, "done": step.done, "total": step.total,
        "cases": progress and progress.cases, "planned": progress and progress.planned,
        "rows": progress and progress.rows,
        "judging": progress and progress.judging, "eta_s": progress and progress.eta_s,
    }  # fmt: skip
    write_whole(directory / SESSION, json.dumps(content, indent=1).encode())


def _process(pid: int) -> float | None:
    """Returns when a process began; None if it does not run."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
