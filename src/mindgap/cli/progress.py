"""Shows a progress bar on a terminal; elsewhere a line at least every 15 seconds, or a line per row."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mindgap.report.words import word_text
from mindgap.workflows.diff import ProgressEvent
from mindgap.workflows.diff.api import OnProgress

#: Without a terminal, a log is not silent for longer.
_SILENCE_S: Final = 15.0


@contextmanager
def progress(*, lines: bool = False) -> Generator[OnProgress]:
    """Yields the tick receiver for `diff_many`. `lines`: without a terminal, a line per finished row too."""
    if sys.stderr.isatty():
        with _bar() as tell:
            yield tell
    else:
        with _log("   0/?     opening sources") as log:
            yield lambda tick: _tell_of_row(log, tick, lines)


@contextmanager
def counting() -> Generator[Callable[[int, int, str], None]]:
    """Yields a receiver for work that reports (done, total or 0 where it is not known, name of the item)."""
    if sys.stderr.isatty():
        with _progress() as bar:
            task = bar.add_task("starting", total=None)
            yield lambda done, total, name: bar.update(task, total=total or None, completed=done, description=name)
    else:
        with _log("   0/?     starting") as log:
            yield lambda done, total, name: log.show(f"{done:>4}/{total or '?'}  {name}", done, total)


@contextmanager
def _log(first: str) -> Generator[_Log]:
    log = _Log(first)
    try:
        yield log
    finally:
        log.close()


def _tell_of_row(log: _Log, tick: ProgressEvent, every_row: bool) -> None:
    where = f"{tick.model}  {tick.platform}".rstrip()
    now = tick.stage == "expected" or (every_row and tick.stage not in ("ran", "doing"))
    log.show(f"{tick.done:>4}/{tick.total}  {where}: {_word(tick)}", tick.done, tick.total, now=now)


def _progress() -> Progress:
    columns = (
        BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}"),
    )  # fmt: skip
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def _bar() -> Generator[OnProgress]:
    with _progress() as bar:
        task = bar.add_task("capturing", total=None)

        def tell(tick: ProgressEvent) -> None:
            if tick.stage == "expected":
                bar.console.print(f"{tick.model}: {tick.text}")
            about = f"{tick.model} {tick.platform} {_word(tick)}"
            bar.update(task, total=tick.total, completed=tick.done, description=about)

        yield tell


def _word(tick: ProgressEvent) -> str:
    return word_text(tick.row.word) + tick.text if tick.row else tick.text or tick.stage


class _Log:
    """Prints the newest line whenever none was printed for 15 s."""

    def __init__(self, first: str) -> None:
        self._started = self._printed = time.monotonic()
        self._line, self._done, self._total, self._shown = first, 0, 0, self._started
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="mindgap-progress", daemon=True).start()

    def close(self) -> None:
        """Prints nothing more."""
        self._closed.set()

    def _left(self) -> str:
        """The time left if the other items take as long as those that were done when the line was shown."""
        seconds = (self._shown - self._started) / max(self._done, 1) * (self._total - self._done)
        seconds -= time.monotonic() - self._shown
        if not 0 < self._done < self._total or seconds <= 0:
            return ""
        return f"  (about {seconds / 60:.0f} min left)" if seconds >= 90 else f"  (about {seconds:.0f} s left)"

    def show(self, line: str, done: int, total: int, *, now: bool = False) -> None:
        """Takes a line, with how many of the items are done; prints it at once, or when it is time."""
        self._line, self._done, self._total, self._shown = line, done, total, time.monotonic()
        if now:
            self._print()

    def _watch(self) -> None:
        while not self._closed.wait(max(self._printed + _SILENCE_S - time.monotonic(), 0.0)):
            if time.monotonic() - self._printed >= _SILENCE_S:
                self._print()

    def _print(self) -> None:
        self._printed = time.monotonic()
        print(f"{self._printed - self._started:6.0f} s  {self._line}{self._left()}", file=sys.stderr, flush=True)  # noqa: T201
