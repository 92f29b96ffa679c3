"""Takes one subject from capture to its last row."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mindgap.diff.collected import Collected
from mindgap.diff.large_models import Turns
from mindgap.diff.subject import Subject
from mindgap.graph import Graph, MindgapError
from mindgap.graph.activity import telling
from mindgap.pipeline.comparison import GraphComparison, RunContext
from mindgap.pipeline.outcome_rows import refusal, row_or_failure
from mindgap.pipeline.time_budget import USED_UP, OutOfTime, TimeBudget
from mindgap.results.recording import Recording
from mindgap.results.rows import Row

#: Outputs of a large graph that take more bytes are asked for only where digests differ.
_MOST_WHOLE: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class SubjectRunner:
    """Takes subjects from capture to their last row. `prepare`: called once one is captured. `release`: ends a
    platform's worker."""

    context: RunContext
    platforms: Sequence[str]
    collected: Collected
    record: Recording
    budget: TimeBudget
    prepare: Callable[[], None]
    turns: Turns
    release: Callable[[str], None]

    def run(self, position: int, subject: Subject) -> None:
        """Captures one subject and runs it on every platform."""
        started = time.perf_counter()
        self.collected.doing(subject.name, "", "capturing")
        try:
            if self.budget.over and subject.in_process:
                raise MindgapError(f"not run: {USED_UP} before it was captured")
            graph = subject.captured()
        except Exception as error:
            self._refuse(position, subject, error)
            return
        captured = time.perf_counter() - started
        self.collected.tick("captured", subject.name, "")
        self.prepare()
        self.record.graph(subject.name, graph)
        with self.turns.turn(graph) as alone:
            self._compare(position, subject, graph, captured, alone)

    def _refuse(self, position: int, subject: Subject, error: Exception) -> None:
        self.collected.refused(position, self.record.refused(position, refusal(subject.name, error)))

    def _compare(self, position: int, subject: Subject, graph: Graph, captured: float, alone: bool) -> None:
        """`alone`: run one platform after the other, and end its worker before the next. Judge when all have run."""
        reference, name = self.context.settings.reference, subject.name
        too_large = self._too_large(name, graph) if alone else {}
        try:
            if reference in too_large:
                raise MindgapError(f"not run: {too_large[reference]}")
            self.collected.doing(name, reference, "running")
            comparison = GraphComparison(self.context, name, graph, whole=alone and _few_outputs(graph))
        except OutOfTime as error:
            self._refuse(position, subject, MindgapError(f"not run: {error} before the reference had run it"))
            return
        except MindgapError as error:
            self._refuse(position, subject, error)
            return
        model = dataclasses.replace(comparison.model({"capture": captured}), source=subject.source)
        self.record.model(position, model, comparison.reference)
        self.collected.model(position, model, reference)
        if alone:
            self._run_ahead(comparison, [each for each in self.platforms if each not in too_large])

        def judge(platform: str) -> None:
            if platform in too_large:
                row = Row(name, platform, "not_run", None, detail=f"not run: {too_large[platform]}")
            else:
                with telling(lambda text: self.collected.doing(name, platform, text)):
                    row = row_or_failure(name, platform, lambda: comparison.row(platform))
            if self.collected.row(position, row):
                self.record.row(graph, row, comparison.outcomes.get(platform))
            if alone:
                self.release(platform)

        with ThreadPoolExecutor(1 if alone else max(len(self.platforms), 1), "mindgap-platform") as threads:
            for _ in threads.map(judge, self.platforms):
                pass

    def _run_ahead(self, comparison: GraphComparison, platforms: Sequence[str]) -> None:
        """Runs the graph on each platform, and ends its worker: the judge needs the memory, and seldom the worker."""
        reference = self.context.settings.reference
        self.release(reference)
        for platform in platforms:
            if platform != reference:
                self.collected.doing(comparison.name, platform, "running")
                # The row says it.
                with suppress(OutOfTime):
                    comparison.run(platform)
                self.release(platform)

    def _too_large(self, name: str, graph: Graph) -> dict[str, str]:
        """Why the graph cannot run, by platform, of those that it is too large for. Reports what it needs."""
        # Needs PyTorch, which the command imports for large graphs only.
        from mindgap.pipeline.estimate import MemoryEstimate

        estimate = MemoryEstimate(graph)
        found: dict[str, str] = {}
        for platform in (self.context.settings.reference, *self.platforms):
            copies = self.context.weight_copies(platform)
            self.collected.doing(name, platform, f"{estimate.on(copies) / 2**30:.1f} GiB of memory expected")
            if why := estimate.too_large(copies):
                found[platform] = why
        return found


def _few_outputs(graph: Graph) -> bool:
    specs = [graph.values[number] for number in (*graph.outputs, *graph.grad)]
    return sum(spec.nbytes for spec in specs if spec is not None) <= _MOST_WHOLE
