"""Shows a progress bar on a terminal; elsewhere a line per row, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mindgap.diff import ProgressEvent
from mindgap.diff.api import OnProgress


@contextmanager
def progress(*, lines: bool = False) -> Generator[OnProgress]:
    """Yields the tick receiver for `diff_many`. `lines`: without a terminal, write a line per finished row."""
    if sys.stderr.isatty():
        with _bar() as tell:
            yield tell
    elif lines:
        yield _Lines()
    else:
        yield _silent


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
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def _bar() -> Generator[OnProgress]:
    with _progress() as bar:
        task = bar.add_task("capturing", total=None)

        def tell(tick: ProgressEvent) -> None:
            word = tick.row.word if tick.row else tick.stage
            bar.update(task, total=tick.total, completed=tick.done, description=f"{tick.model} {tick.platform} {word}")

        yield tell


class _Lines:
    """Prints one line per finished row, for a log."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, tick: ProgressEvent) -> None:
        if tick.stage == "ran":
            return
        word = tick.row.word if tick.row else tick.stage
        seconds = time.monotonic() - self._started
        where = f"{tick.model}  {tick.platform}".rstrip()
        print(f"{seconds:6.0f} s  {tick.done:>4}/{tick.total}  {where}: {word}", file=sys.stderr, flush=True)  # noqa: T201


def _silent(tick: ProgressEvent) -> None:
    """Ignores a tick, so that standard error stays empty for a successful script."""
