"""Shortens the deadline of candidates while a hang is reduced: each candidate that hangs costs its whole deadline."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mindgap.graph import Graph, Node, Ref
from mindgap.judge.pipeline.comparison import RunContext
from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Job, Outcome

#: A graph counts as hanging after so many times the longest that one took which ended, and so many seconds more.
_FACTOR, _SLACK_S = 10.0, 5.0
#: The least that a script gives the platform, with the imports of its process.
_SCRIPT_S: Final = 30.0


class HangDeadline:
    """The deadline for one platform: grows with the longest time that a graph took which ended."""

    def __init__(self, most_s: float) -> None:
        """`most_s`: the plan's deadline, which holds until a graph has ended."""
        self._most_s = most_s
        self._longest_s = 0.0

    def observe(self, outcome: Outcome) -> None:
        """Takes the time of a graph that ended."""
        if outcome.ran:
            self._longest_s = max(self._longest_s, outcome.timings.get("total", 0.0))

    @property
    def seconds(self) -> float:
        return min(self._most_s, _FACTOR * self._longest_s + _SLACK_S) if self._longest_s else self._most_s

    @property
    def script_seconds(self) -> float:
        """How long a script waits, the imports of its process included."""
        return self.seconds + _SCRIPT_S


def with_hang_deadline(context: RunContext, platform: PlatformName, graph: Graph) -> tuple[RunContext, HangDeadline]:
    """The context with a shorter deadline for jobs of `platform`, and that deadline.

    A copy of the graph's first input is run once, to measure how long the platform takes for a graph that ends.
    """
    deadline = HangDeadline(context.settings.deadline_s)

    def execute(job: Job) -> Outcome:
        if job.platform != platform:
            return context.execute(job)
        outcome = context.execute(replace(job, deadline_s=min(job.deadline_s, deadline.seconds)))
        deadline.observe(outcome)
        return outcome

    shortened = replace(context, execute=execute)
    if graph.inputs:
        shortened.run(platform, _copy_of_first_input(graph))
    return shortened, deadline


def _copy_of_first_input(graph: Graph) -> Graph:
    given = graph.inputs[0]
    return Graph((given,), (Node("aten.clone.default", (Ref(0),), (), (given.spec,)),), (1,))
