"""Takes one subject from capture to its last row."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mindgap.graph import Array, Graph, MindgapError, materialise_all
from mindgap.graph.activity import activity_receiver, report_activity
from mindgap.graph.compare.culprit import SubmoduleCulprit
from mindgap.graph.compare.reason import Reason
from mindgap.graph.sizes import half_share, output_bytes
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.pipeline.outcome_rows import not_run, refusal, row_or_failure
from mindgap.judge.pipeline.own_path import with_own_path
from mindgap.judge.pipeline.own_path_alone import row_without_graph
from mindgap.judge.pipeline.own_path_reasons import not_compared, refused, without_file_run
from mindgap.judge.pipeline.own_path_sizes import with_sizes
from mindgap.judge.pipeline.time_budget import INTERRUPTED, USED_UP, OutOfTime, TimeBudget, reason_of_end
from mindgap.own_path.own_program import OwnProgram
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.name import PlatformName
from mindgap.results.advice import advised
from mindgap.results.drawn_graph import MOST_AROUND, drawn_nodes, submodule_nodes
from mindgap.results.quantisation_cost import QuantisationCost, cost_of
from mindgap.results.reason_words import sentence
from mindgap.results.rows import Model, OwnPath, Row
from mindgap.results.run_record import RunRecord
from mindgap.run.outcome import Outcome
from mindgap.run.system import memory_bytes
from mindgap.source_worker.client import FileUntranslated, ProgramRaised, ProgramRefused
from mindgap.workflows.diff.collected import Collected
from mindgap.workflows.diff.file_subject import FileSubject, RunOn, of_two_versions
from mindgap.workflows.diff.large_models import LargeGraphGate, expected_before_capture, expected_seconds
from mindgap.workflows.diff.subject import Subject

#: Outputs of a large graph that take more bytes, those of all platforms together, are fetched only where digests
#: differ.
_MOST_WHOLE: Final = 512 << 20
#: Runs of a program by the way of platforms' users that were begun before the capture.
OwnRuns = Mapping[PlatformName, Future[OwnRun | None]]


@dataclass(frozen=True, slots=True)
class CapturedSubject:
    """A subject with its graph. `seconds`: how long capturing took."""

    position: int
    subject: Subject
    graph: Graph
    seconds: float
    own_runs: OwnRuns = field(default_factory=dict[PlatformName, Future[OwnRun | None]])


@dataclass(frozen=True, slots=True)
class SubjectRunner:
    """Takes subjects from capture to their last row. `prepare`: called once one is captured. `release`: ends a
    platform's worker."""

    context: RunContext
    platforms: Sequence[PlatformName]
    collected: Collected
    record: RunRecord
    budget: TimeBudget
    prepare: Callable[[], None]
    gate: LargeGraphGate
    release: Callable[[PlatformName], None]

    def run(self, position: int, subject: Subject) -> None:
        """Captures one subject and runs it on every platform."""
        captured = self.capture(position, subject)
        if captured is not None:
            self.compare(captured)

    def capture(self, position: int, subject: Subject) -> CapturedSubject | None:
        """Captures one subject. One that gives no graph is recorded as refused."""
        started = time.perf_counter()
        self.collected.report_activity(subject.name, "", "capturing")
        own_runs: OwnRuns = {}
        try:
            if self.budget.over and subject.in_process:
                raise MindgapError(f"not run: {sentence(USED_UP)} before it was captured")
            if self._is_small(subject) and subject.program is not None:
                # An export takes longer than all else of a small model.
                own_runs = _begin(subject.program, self._exporting())
            graph = subject.captured()
        except ProgramRefused as error:
            self._without_graph(position, subject, own_runs, error)
            return None
        except Exception as error:
            for run in own_runs.values():
                run.cancel()
            self._refuse(position, subject, error)
            return None
        seconds = time.perf_counter() - started
        self.collected.tick("captured", subject.name, "")
        self.prepare()
        self.record.graph(subject.name, graph)
        return CapturedSubject(position, subject, graph, seconds, own_runs)

    def _is_small(self, subject: Subject) -> bool:
        """Returns whether a model is known to be small before the capture. Says how long a large one is expected to
        take."""
        if subject.weights is None:
            return False
        text = expected_before_capture(subject.weights(), len(self._exporting()), judged=self.context.settings.judge)
        if text:
            self.collected.tick("expected", subject.name, "", text=text)
        return not text

    def _exporting(self) -> list[PlatformName]:
        return [each for each in self.platforms if each != self.context.settings.reference]

    def compare(self, captured: CapturedSubject) -> None:
        """Runs a captured subject on every platform, and judges it."""
        with self.gate.turn(captured.graph) as alone:
            self._compare(captured, alone)

    def _refuse(self, position: int, subject: Subject, error: Exception, rows: int = 0) -> None:
        """`rows`: how many the subject has nevertheless."""
        refused = self.record.refused(position, refusal(subject.name, error))
        self.collected.refused(position, refused, len(self.platforms) - rows)

    def _without_graph(self, position: int, subject: Subject, begun: OwnRuns, error: ProgramRefused) -> None:
        """Compares the own exports of a program that cannot be captured with eager mode, and runs of a model file
        without a translation with each other. Records the refusal of a program, and of a file that no platform runs. A
        store has the refusal alone: its rows are of graphs."""
        program, platforms = subject.program, self._exporting()
        if program is None or self.budget.over or not platforms:
            self._refuse(position, subject, error)
            return

        def run_on(platform: PlatformName) -> OwnRun | None:
            run = begun[platform].result() if platform in begun else program.run(platform)
            if run is not None and run.raised:
                raise ProgramRaised(run.reason)
            return run

        try:
            if isinstance(error, FileUntranslated):
                report = partial(self.collected.report_activity, subject.name)
                given = FileSubject(subject.name, program, self.context, report)
                rows = given.rows(platforms, run_on, error)
            else:
                rows = self._rows_alone(subject, program, run_on)
        except ProgramRaised as raised:
            rows = raised
        if isinstance(rows, MindgapError) or all(row.status == "not_run" for row in rows):
            self._refuse(position, subject, rows if isinstance(rows, MindgapError) else error)
            return
        model = Model(subject.name, "", 0, 0, (), (), "ok", source=subject.source)
        self.collected.model(position, model, self.context.settings.reference)
        for row in rows:
            self.collected.row(position, row)
        refused = self.record.refused(position, refusal(subject.name, error))
        if isinstance(error, FileUntranslated):
            self.collected.tick("refused", subject.name, "", finished=len(self.platforms) - len(rows))
        else:
            self.collected.refused(position, refused, len(self.platforms) - len(rows))

    def _rows_alone(self, subject: Subject, program: OwnProgram, run_on: RunOn) -> list[Row]:
        """The rows of a program that cannot be captured."""

        def compare(platform: PlatformName) -> Row:
            run = run_on(platform)
            locate, sensitivity = partial(program.locate, platform), partial(program.sensitivity, platform)
            row = row_without_graph(subject.name, platform, run, locate, sensitivity)
            sized = program.run_sizes(platform, run.dynamic) if run is not None and run.fed else None
            return row if sized is None or run is None else with_sizes(row, sized, run, locate)

        rows: list[Row] = []
        for platform in self._exporting():
            self.collected.report_activity(subject.name, platform, "comparing the program's own export")
            rows.append(advised(row_or_failure(subject.name, platform, partial(compare, platform))))
        return rows

    def _compare(self, captured: CapturedSubject, alone: bool) -> None:
        """`alone`: run one platform after the other, and end its worker before the next. Judge when all have run."""
        position, subject, graph = captured.position, captured.subject, captured.graph
        reference, name = self.context.settings.reference, subject.name
        memory, judging, too_large = self._memory(graph) if alone else (0, 0, {})
        if reference in too_large:
            self._refuse(position, subject, MindgapError(f"not run: {too_large[reference]}"))
            return
        try:
            self.collected.report_activity(name, reference, "running")
            whole = alone and output_bytes(graph) * (len(self.platforms) + 1) <= _MOST_WHOLE
            comparison = GraphComparison(self.context, name, graph, whole=whole)
        except OutOfTime as error:
            self._refuse(position, subject, MindgapError(f"not run: {error} before the reference had run it"))
            return
        except HostProblem as error:
            self._refuse(position, subject, MindgapError(f"not run: {error}"))
            return
        model = dataclasses.replace(
            comparison.model({"capture": captured.seconds}), source=subject.source,
            quantisation_cost=self._cost(subject, comparison),
        )  # fmt: skip
        self.record.model(position, model, comparison.reference)
        self.collected.model(position, model, reference)
        if alone:
            run = [each for each in self.platforms if each not in too_large and each != reference]
            timings = comparison.reference.timings
            once = timings.get("second_run", timings.get("run", 0.0))
            minutes = len(run) * expected_seconds(graph, once, judged=self.context.settings.judge) / 60
            expected = f"about {memory / 2**30:.1f} GiB of memory and {max(minutes, 1):.0f} min expected"
            if self.context.settings.judge and judging > memory:
                expected += f"; {judging / 2**30:.1f} GiB to judge a difference"
            self.collected.tick("expected", name, "", text=expected)
            self._run_ahead(comparison, run)

        def told(platform: PlatformName, text: str) -> None:
            # A judge evaluates operators in this process: between two of them it ends when the time is used up.
            self.budget.check()
            if self.collected.closed:
                raise OutOfTime(INTERRUPTED)
            self.collected.report_activity(name, platform, text)

        self.collected.began(position, comparison)

        def judge(platform: PlatformName) -> None:
            if platform in too_large:
                row = not_run(name, platform, Reason("memory", message=too_large[platform]))
            elif alone and (out := comparison.outcomes.get(platform)) is not None and out.status == "oom":
                # That a large model does not fit is no fault of the platform.
                row = not_run(name, platform, Reason("memory", message=_lacking(out, memory)))
            else:
                with activity_receiver(partial(told, platform)):
                    row = row_or_failure(name, platform, lambda: self._judged(captured, comparison, platform, alone))
            row = advised(row)
            if self.collected.row(position, row):
                self.record.row(graph, row, comparison.outcomes.get(platform))
            if alone:
                self.release(platform)
                if captured.subject.program is not None:
                    captured.subject.program.end_idle()

        with ThreadPoolExecutor(1 if alone else max(len(self.platforms), 1), "mindgap-platform") as threads:
            for _ in threads.map(judge, self.platforms):
                pass

    def _cost(self, subject: Subject, comparison: GraphComparison) -> QuantisationCost | None:
        """How far the reference's outputs are from the float model's, on the same arguments."""
        given = subject.float_model
        if given is None:
            return None
        self.collected.report_activity(subject.name, self.context.settings.reference, "running the float model")
        try:
            graph = subject.locked(given.graph)
            quantised = comparison.whole_reference()
            if not quantised.ran or quantised.arrays is None:
                return QuantisationCost(given.source, reason="the reference did not run the quantised model")
            inputs = self._with_arguments(graph, comparison.graph)
            floats = self.context.run(self.context.settings.reference, graph, "outputs", inputs)
        except (MindgapError, OutOfTime) as error:
            return QuantisationCost(given.source, reason=str(error))
        if not floats.ran or floats.arrays is None:
            return QuantisationCost(given.source, reason=f"the reference did not run it: {floats.message}")
        return cost_of(given.source, quantised.arrays, floats.arrays)

    def _with_arguments(self, graph: Graph, other: Graph) -> dict[int, Array]:
        """A graph's inputs with the arguments of another graph. Raises `MindgapError` if they are of other shapes."""
        places, given = ([at for at, each in enumerate(one.inputs) if each.role == "input"] for one in (graph, other))
        forms, wanted = ([str(one.inputs[at].spec) for at in ats] for one, ats in ((graph, places), (other, given)))
        if forms != wanted:
            raise MindgapError(f"it takes {', '.join(forms)} where the quantised model takes {', '.join(wanted)}")
        inputs = dict(enumerate(materialise_all(graph, self.context.tensors)))
        arguments = materialise_all(other, self.context.tensors)
        return inputs | {place: arguments[at] for place, at in zip(places, given, strict=True)}

    def _judged(
        self, captured: CapturedSubject, comparison: GraphComparison, platform: PlatformName, alone: bool
    ) -> Row:
        """The row of the captured graph, with what the program gives by the platform's own way."""
        program, begun = captured.subject.program, captured.own_runs.get(platform)
        if program is None or platform == self.context.settings.reference:
            return comparison.row(platform)
        if program.reads(self.context.settings.reference) and program.reads(platform):
            return of_two_versions(comparison.row(platform), program, comparison, platform)
        # A file runs as it is in little more memory than its graph; an export holds the model several times over.
        exported = alone and begun is None and not program.reads(platform)
        if exported or self.budget.over:
            large = "of a large model the captured graph alone runs, and no second export"
            about = OwnPath("not_compared", detail=large) if exported else not_compared(USED_UP)
            return _without_own_run(comparison.row(platform), about, program.reads(platform))
        if alone and begun is None:
            row = comparison.row(platform)
            self.release(platform)  # before the file is loaded too
            report_activity("running the file")
            run = None if row.status == "not_run" else program.run(platform)
        else:
            running = begun or _begin(program, [platform])[platform]
            run = running.result() if program.reads(platform) else None
            if run is not None and run.source_file and run.refused:
                return refused(Row(captured.subject.name, platform, "ok", None), run, file_alone=True)
            # An error of a file's translation is dropped where the file runs: its operator is not looked for.
            dropped = run is not None and run.source_file and run.outputs is not None
            row = comparison.row(platform, errors_traced=not dropped)
            run = running.result()
        if run is None or row.status == "not_run":
            return row
        try:
            report_activity("comparing the program's own export")
            again = partial(program.eager_again, platform)
            referee = program.run if run.source_file else None
            probe = program.probe if run.source_file and self.context.settings.judge else None
            nodes = partial(program.wrong_nodes, platform) if run.source_file else None
            row = with_own_path(comparison, row, run, partial(program.locate, platform), again, referee, probe, nodes)
        except (OutOfTime, HostProblem) as error:
            return _without_own_run(row, not_compared(reason_of_end(error)), run.source_file)
        sized = program.run_sizes(platform, run.dynamic)
        row = row if sized is None else with_sizes(row, sized, run, partial(program.locate, platform))
        if not isinstance(row.culprit, SubmoduleCulprit):
            return row
        inside = submodule_nodes(captured.graph, row.culprit.path)
        nodes = drawn_nodes(captured.graph, {}, inside[:MOST_AROUND])
        return dataclasses.replace(row, around=nodes)

    def _run_ahead(self, comparison: GraphComparison, platforms: Sequence[PlatformName]) -> None:
        """Runs the graph on each platform, and ends its worker: the judge needs the memory, and seldom the worker."""
        reference = self.context.settings.reference
        self.release(reference)
        for platform in platforms:
            self.collected.report_activity(comparison.name, platform, "running")
            # The row runs it again and records what was raised.
            with suppress(Exception):
                comparison.run(platform)
            self.release(platform)

    def _memory(self, graph: Graph) -> tuple[int, int, dict[PlatformName, str]]:
        """The bytes that runs are expected to take and that the judge is, and why a platform is left out, by name."""
        # Needs PyTorch, which the command imports for large graphs only.
        from mindgap.judge.pipeline.estimate import MemoryEstimate

        estimate = MemoryEstimate(graph)
        every, half = (self.context.settings.reference, *self.platforms), half_share(graph)
        copies = {each: self.context.weight_copies(each, half) for each in every}
        reasons = {platform: estimate.too_large(count) for platform, count in copies.items()}
        too_large = {platform: why for platform, why in reasons.items() if why is not None}
        largest = max(estimate.on(copies[each]) for each in copies.keys() - too_large.keys() or copies)
        return largest, estimate.judged(), too_large


def _without_own_run(row: Row, about: OwnPath, of_file: bool) -> Row:
    """The row of a program, or of a model file, that did not run the way of the platform's users."""
    return without_file_run(row, about) if of_file else dataclasses.replace(row, own_path=about)


def _lacking(outcome: Outcome, expected: int) -> str:
    """The message on a large model for which memory did not suffice. `expected`: bytes."""
    return (
        f"{outcome.message}: about {expected / 2**30:.1f} GiB were expected, and the machine has "
        f"{memory_bytes() / 2**30:.1f} GiB for all that runs: compare a submodule (--inside layers.0), a smaller input"
    )


def _begin(program: OwnProgram, platforms: Sequence[PlatformName]) -> OwnRuns:
    """Begins to run a program by the way of each platform's users."""
    # Leaving an executor would wait for the runs.
    threads = ThreadPoolExecutor(max(min(len(platforms), os.cpu_count() or 2), 1), "mindgap-own-path")
    try:
        return {platform: threads.submit(program.run, platform) for platform in platforms}
    finally:
        threads.shutdown(wait=False)
