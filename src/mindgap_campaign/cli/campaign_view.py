"""Shows a campaign on a terminal: its progress while it runs, and its status."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.text import Text

from mindgap.cli.tables import console, plain_table
from mindgap.graph.compare.verdict import FINDINGS
from mindgap.results.rows import ordered

if TYPE_CHECKING:
    from mindgap_campaign.campaign.state.progress import ProgressSnapshot
    from mindgap_campaign.campaign.state.session_file import RunningSession
    from mindgap_campaign.campaign.state.status import CampaignStatus
    from mindgap_campaign.campaign.state.steps import SessionStep, StepTracker

#: Seconds between two looks, between two lines of a log, and until a step that is still going on gets its first line.
_LOOK_S: Final = 0.25
_LOG_S: Final = 10.0
_SHORT_S: Final = 1.0
_MOST_LACKING: Final = 10


@contextmanager
def watching(steps: StepTracker) -> Generator[None]:
    """Shows the progress of a session: a table on a terminal, a line now and then elsewhere, all on standard error."""
    over = threading.Event()
    show = _on_terminal if sys.stderr.isatty() else _log_progress
    thread = threading.Thread(target=show, args=(steps, over), name="mindgap-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def line_of(snapshot: ProgressSnapshot) -> str:
    """Formats the counts as one line for a log."""
    words = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in _words(snapshot.words).items())
    return (
        f"{snapshot.seconds:7.0f} s  {snapshot.cases}/{snapshot.planned} cases  "
        f"{snapshot.cases_per_second:.1f} cases/s  {snapshot.rows_per_second:.1f} rows/s  "
        f"{_eta(snapshot.eta_s)}  {snapshot.features} features covered (+{snapshot.new})  "
        f"{snapshot.judging} wait for a judge  {words or 'no rows yet'}"
    )


def print_status(status: CampaignStatus, out: TextIO) -> None:
    """Prints the totals, a line for each platform, and the operators that platforms lack."""
    from mindgap_campaign.campaign.state.expenses import lines_of

    page = console(out)
    page.print(_head(status), highlight=False)
    numbers = ("rows", *(word.replace("_", " ") for word in status.totals.words), "known to lack", "beyond budget")
    table = plain_table("platform", *numbers, right=numbers)
    for each in status.platforms:
        cells = [f"{each.words.get(word, 0):,}" for word in status.totals.words]
        table.add_row(each.platform, f"{each.rows:,}", *cells, f"{each.refused:,}", f"{each.left:,}")
    page.print(table)
    for line in lines_of(status.cpu):
        page.print(line, highlight=False, markup=False)
    if status.agreement is not None:
        page.print(_references(*status.agreement), highlight=False)
    if status.lacking:
        page.print("not run, as the platform is known to lack it:", highlight=False)
        for platform, reason, count in status.lacking[:_MOST_LACKING]:
            page.print(f"  {count:>6,}  {platform}  {reason[:140]}", highlight=False, markup=False)
        rest = sum(count for _, _, count in status.lacking[_MOST_LACKING:])
        if rest:
            page.print(f"  {rest:>6,}  for {len(status.lacking) - _MOST_LACKING} other reasons", highlight=False)


def running_line(session: RunningSession) -> str:
    """Formats the running session: process, start, current step and progress."""
    if session.cases is None:
        far = f"{session.step}" + (f": {session.done:,} of {session.total:,}" if session.total else "")
    else:
        far = (
            f"{session.cases:,} of {session.planned or 0:,} cases begun, {session.rows or 0:,} rows in this session, "
            f"{session.judging or 0:,} wait for a judge, {_eta(session.eta_s)}"
        )
    where = f"process {session.pid} on {session.host} since {session.since}"
    return f"running for {_duration(session.seconds)}, {where}: {far}"


def _references(equal: int, both: int) -> str:
    if not both:
        return "no case has run on the reference both here and where the bundle was made"
    return f"the reference gave the same bits here and where the bundle was made for {equal:,} of {both:,} cases"


def _head(status: CampaignStatus) -> str:
    statuses = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in status.reference_statuses.items())
    totals = status.totals
    shard = "" if status.shards == ["0/1"] else f", shards {', '.join(status.shards)}"
    session = "" if status.running is None else f"{running_line(status.running)}\n"
    state = (
        status.state if status.state != "unfinished" else "unfinished, and no session runs (mindgap campaign resume)"
    )
    return session + (
        f"{status.run}: {state}{shard}, {status.blocks_done}/{status.blocks} blocks\n"
        f"{status.cases:,} of {status.planned:,} cases on {status.reference} ({statuses or 'none'}); "
        f"{totals.rows:,} rows, {_counted(totals.findings, 'finding')} of {_counted(status.found, 'kind')}; "
        f"{status.features:,} features covered; {status.cases_per_second:.1f} cases/s"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _on_terminal(steps: StepTracker, over: threading.Event) -> None:
    with Screen(console=Console(stderr=True), refresh_per_second=4, transient=True) as screen:
        while not over.wait(_LOOK_S):
            step = steps.now()
            screen.update(_picture(step.running) if step.running is not None else Text(step.line()))


def _log_progress(steps: StepTracker, over: threading.Event) -> None:
    """Logs the first step at once, each other step that lasts, one line every ten seconds, and the last counts."""
    step, last, ran, ended_with = steps.now(), time.monotonic(), None, None
    shown = step.number
    _log(_log_line(step))
    while not over.wait(_LOOK_S):
        step, now = steps.now(), time.monotonic()
        ended = ran is not None and step.running is None
        begun = step.number != shown and step.seconds >= _SHORT_S and step.running is None
        if ended or begun or now - last >= _LOG_S:
            _log(line_of(ran.snapshot()) if ran is not None and ended else _log_line(step))
            shown, last = step.number, now
            ended_with = ran if ended else ended_with
        ran = steps.ran if step.running is not None else None
    # Cases may run for less time than passes between two looks.
    if steps.ran is not None and steps.ran is not ended_with:
        _log(line_of(steps.ran.snapshot()))


def _log_line(step: SessionStep) -> str:
    return line_of(step.running) if step.running is not None else f"mindgap: {step.line()}"


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _picture(snapshot: ProgressSnapshot) -> Group:
    words = _words(snapshot.words)
    numbers = [column.replace("_", " ") for column in (*words, "status")]
    table = plain_table("platform", *numbers, right=numbers)
    platforms = sorted({platform for platform, _ in snapshot.words})
    for platform in platforms:
        statuses = {status: n for (p, status), n in sorted(snapshot.statuses.items()) if p == platform}
        counted = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in statuses.items())
        cells = [Text(str(snapshot.words.get((platform, word), 0)), "bold red" if word in FINDINGS else "")
                 for word in words]  # fmt: skip
        table.add_row(platform, *cells, counted)
    head = (
        f"{snapshot.cases:,}/{snapshot.planned:,} cases, {snapshot.cases_per_second:.1f}/s; {snapshot.rows:,} rows, "
        f"{snapshot.rows_per_second:.1f}/s; {_eta(snapshot.eta_s)}; block {snapshot.block}: {snapshot.features:,} "
        f"features covered, {snapshot.new} of them new; {snapshot.judging} rows wait for a judge"
    )
    return Group(Text(head), table)


def _words(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Formats rows by verdict over all platforms, the worst first."""
    totals: Counter[str] = Counter()
    for (_, word), count in counts.items():
        totals[word] += count
    return ordered(totals)


def _eta(seconds: float | None) -> str:
    return "time left unknown" if seconds is None else f"about {_duration(seconds)} left"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
