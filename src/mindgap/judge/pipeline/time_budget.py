"""Limits the time of a whole comparison: jobs are cut short at its end, and no further job is run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Final

from mindgap.graph.compare.reason import Reason
from mindgap.platforms.environments import HostProblem
from mindgap.results.reason_words import sentence
from mindgap.run.outcome import Job, Outcome

#: Why a row is not run, or not judged.
USED_UP: Final = Reason("time_budget")
INTERRUPTED: Final = Reason("interrupted")


class OutOfTime(Exception):
    """The time budget is used up, or the comparison was interrupted: `reason`."""

    def __init__(self, reason: Reason = USED_UP) -> None:
        super().__init__(sentence(reason))
        self.reason = reason


def reason_of_end(error: OutOfTime | HostProblem) -> Reason:
    """Returns why a comparison ended before it was done."""
    return error.reason if isinstance(error, OutOfTime) else Reason("host_lost", message=str(error))


class TimeBudget:
    """The moment at which a comparison must be over. `seconds`: from now; None for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.until = None if seconds is None else time.monotonic() + seconds

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return self.until is not None and time.monotonic() >= self.until

    def left(self) -> float | None:
        """The seconds that are left, 0 or more; None for no limit."""
        return None if self.until is None else max(self.until - time.monotonic(), 0.0)

    def check(self) -> None:
        """Raises `OutOfTime` if the time is used up."""
        if self.over:
            raise OutOfTime

    def limited(self, execute: Callable[[Job], Outcome]) -> Callable[[Job], Outcome]:
        """`execute` within the budget. It raises `OutOfTime` for a job that has no time left, or that is cut short."""

        def run(job: Job) -> Outcome:
            self.check()
            outcome = execute(dataclasses.replace(job, until=self.until))
            if outcome.status == "timeout" and self.over:
                raise OutOfTime
            return outcome

        return execute if self.until is None else run
