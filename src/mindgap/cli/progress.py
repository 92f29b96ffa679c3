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

from mindgap.diff import ProgressEvent
from mindgap.diff.api import OnProgress

#: Without a terminal, a log is not silent for longer.
_SILENCE_S: Final = 15.0


@contextmanager
def progress(*, lines: bool = False) -> Generator[OnProgress]:
    """Yields the tick receiver for `diff_many`.

    Without a terminal a line is printed at least every 15 s; `lines`: also one per finished row.
    """
    if sys.stderr.isatty():
        with _bar() as tell:
            yield tell
    else:
        shown = _Lines(lines)
        try:
            yield shown
        finally:
            shown.close()


@contextmanager
def counting() -> Generator[Callable[[int, int, str], None]]:
    """Yields a receiver for work that reports (done, total, name of the finished item)."""
    if not sys.stderr.isatty():
        yield lambda done, total, name: None
        return
    with _progress() as bar:
        task = bar.add_task("starting", total=None)
        yield lambda done, total, name: bar.update(task, total=total, completed=done, description=name)


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
    return tick.row.word if tick.row else tick.text or tick.stage


class _Lines:
    """Prints what is done, for a log: a line when none was printed for 15 s, and on request one per finished row."""

    def __init__(self, every_row: bool) -> None:
        self._started = self._printed = time.monotonic()
        self._every_row = every_row
        self._line = "   0/?     opening sources"
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="mindgap-progress", daemon=True).start()

    def __call__(self, tick: ProgressEvent) -> None:
        where = f"{tick.model}  {tick.platform}".rstrip()
        self._line = f"{tick.done:>4}/{tick.total}  {where}: {_word(tick)}{self._left(tick)}"
        if tick.stage == "expected" or (self._every_row and tick.stage not in ("ran", "doing")):
            self._print()

    def _left(self, tick: ProgressEvent) -> str:
        """The time left if the other rows take as long as those that are done."""
        if not 0 < tick.done < tick.total:
            return ""
        seconds = (time.monotonic() - self._started) / tick.done * (tick.total - tick.done)
        return f"  (about {seconds / 60:.0f} min left)" if seconds >= 90 else f"  (about {seconds:.0f} s left)"

    def close(self) -> None:
        """Prints nothing more."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(max(self._printed + _SILENCE_S - time.monotonic(), 0.0)):
            if time.monotonic() - self._printed >= _SILENCE_S:
                self._print()

    def _print(self) -> None:
        self._printed = time.monotonic()
        print(f"{self._printed - self._started:6.0f} s  {self._line}", file=sys.stderr, flush=True)  # noqa: T201
