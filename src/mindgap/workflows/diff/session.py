"""Keeps worker processes for any number of comparisons: `Session`."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import os
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

from mindgap.findings.script.culprit_script import culprit_script
from mindgap.graph import Graph, MindgapError, stored_keys
from mindgap.graph.tensors import TensorStore, default_tensor_store
from mindgap.judge.pipeline.comparison import RunContext
from mindgap.judge.pipeline.time_budget import INTERRUPTED, OutOfTime, TimeBudget
from mindgap.own_path.own_program import OwnProgram
from mindgap.platforms.name import CPU_EAGER, PlatformName, parse
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import canonical
from mindgap.results.rows import PlatformFacts, Report
from mindgap.results.run_record import RunRecord, recorded
from mindgap.results.settings import DEADLINE_S, OWN_PATH, REPEAT, TRACE, RunSettings
from mindgap.results.store.errors import StoreError
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap.workflows.diff.batches import Batches
from mindgap.workflows.diff.collected import Collected
from mindgap.workflows.diff.large_models import LargeGraphGate
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap.workflows.diff.subject import FloatModel, OnProgress, Subject
from mindgap.workflows.diff.subject_runner import SubjectRunner

if TYPE_CHECKING:
    from mindgap.results.store import Store

#: Seconds after the end of a time budget in which what is under way may end by itself.
_GRACE_S: Final = 3.0
#: Modes that most graphs give equal bits in, which need no judge.
_ALIKE: Final = frozenset({"eager", "jit"})


class DiffInterrupted(KeyboardInterrupt):
    """A comparison was interrupted. `report`: the models, rows and refusals that were known by then."""

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report


class StoreNotWritten(StoreError):
    """The comparison ended, and the store could not be written. `report`: the whole report."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


class Session:
    """Compares models on platforms, with worker processes that stay between comparisons.

    The first comparison on a platform starts its worker, the next ones use it. Use as a context manager: leaving it
    ends the workers. One comparison at a time.
    """

    def __init__(self, *, tensors: TensorStore | None = None, jobs: int | None = None) -> None:
        """`tensors`: where weights are kept (default: a temporary directory, emptied after each comparison).

        `jobs`: how many workers work at once (default: one per core).
        """
        self._stack = ExitStack()
        self._own = tensors is None
        if tensors is None:
            tensors = TensorStore(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mindgap-")))
        self._tensors = tensors
        self._busy = jobs or os.cpu_count() or 2
        self._open_pool()
        self._facts: dict[tuple[str, ...], tuple[PlatformFacts, ...]] = {}
        self._judge_import: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_pool(self) -> None:
        """Makes a pool without workers."""
        self._pool = self._stack.enter_context(WorkerPool([], tensors=self._tensors, busy=self._busy))
        self._gate = LargeGraphGate(self._pool, self._busy)

    def close(self) -> None:
        """Ends the workers and removes the temporary directory. May be called again."""
        self._stack.close()

    def diff(
        self,
        model: Graph | Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        platforms: Sequence[str],
        reference: str = CPU_EAGER,
        trace: bool = TRACE,
        name: str = "",
        repeat: int = REPEAT,
        deadline_s: float = DEADLINE_S,
        backward: bool = False,
        own_path: bool = OWN_PATH,
        reference_model: Callable[..., Any] | None = None,
        path_taken: bool = False,
        ignore_output: Sequence[str] = (),
        output_mask: str = "",
    ) -> Report:
        """Compares one model, as `mindgap.diff` does; raises what it raises."""
        if isinstance(model, str | Path):
            raise MindgapError(
                f"mindgap.diff takes a model, and {str(model)!r} is a name: `mindgap diff {model} -p PLATFORM --json` "
                "runs files and other sources"
            )
        options = {"backward": backward, "path_taken": path_taken, "outputs left out": ignore_output or output_mask}
        if isinstance(model, Graph) and (given := [name for name, value in options.items() if value]):
            raise MindgapError(f"{given[0]}: not for a graph that was captured already: it has no program")
        if importlib.import_module("torch").is_autocast_enabled("cpu"):
            warnings.warn("torch.autocast around mindgap.diff does not count: enter it in the program", stacklevel=3)
        if not platforms:
            raise MindgapError("no platform to compare on: platforms=['onnxruntime/cpu'] names one")
        captured: list[Graph] = []

        def graph(given: Sequence[Any], of: Graph | Callable[..., Any]) -> Graph:
            captured.append(self._captured(of, given, kwargs, backward, path_taken))
            return captured[-1]

        called = name or ("graph" if isinstance(model, Graph) else _name_of(model))
        settings = RunSettings(parse(reference), trace, repeat, deadline_s)
        try:
            subjects: list[Subject] = []
            sets = _sets(args)
            for number, given in enumerate(sets, 1):
                one = _read(model, given, kwargs, ignore_output, output_mask)
                program = self._program(one, given, kwargs) if own_path and not backward else None
                label, group = (f"{called} (arguments {number})", called) if len(sets) > 1 else (called, "")
                floats = None
                if reference_model is not None:
                    floats = FloatModel(_name_of(reference_model), partial(graph, given, reference_model))
                make, captures = partial(graph, given, one), not isinstance(model, Graph)
                subject = Subject(label, make, in_process=captures, program=program, group=group, float_model=floats)
                subjects.append(subject)
            report = self.diff_many(subjects, platforms, settings=settings)
        finally:
            if self._own:
                for key in {key for each in captured for key in stored_keys(each)}:
                    self._tensors.remove(key)
        for refused in report.refused:
            raise RuntimeError(refused.broken) if refused.broken else MindgapError(refused.reason)
        for row in report.rows:
            if row.broken:
                raise RuntimeError(f"mindgap failed while judging {row.platform}:\n{row.broken}")
        return report

    def diff_many(
        self, subjects: Iterable[Subject], platforms: Sequence[str], *, settings: RunSettings | None = None,
        progress: OnProgress | None = None, skip_unavailable: bool = False, store: Store | None = None,
    ) -> Report:  # fmt: skip
        """Compares every subject on every platform, as `mindgap.diff_many` does; raises what it raises."""
        started = time.perf_counter()
        settings = settings or RunSettings()
        settings = dataclasses.replace(settings, reference=canonical(settings.reference))
        budget = TimeBudget(settings.budget_s)
        if isinstance(subjects, Mapping):
            raise MindgapError("mindgap.diff_many takes a list of mindgap.Subject(NAME, GRAPH); mindgap.diff one model")
        names = [canonical(platform) for platform in ([platforms] if isinstance(platforms, str) else platforms)]
        facts = self._facts_of([settings.reference, *names], settings.reference, skip_unavailable)
        there = {fact.platform for fact in facts if fact.available}
        wanted = [platform for platform in dict.fromkeys(names) if platform in there]
        empty = Report(
            settings.reference, facts, (), (), created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=version("mindgap"),
        )  # fmt: skip
        # Workers start while sources are opened and captured.
        self._pool.add([settings.reference, *wanted])
        if settings.judge and any(platform.mode not in _ALIKE for platform in wanted):
            self._import_judge(wanted)
        collected = Collected(wanted, progress)
        with recorded(store, settings, self._pool.describe) as record:
            try:
                self._run(subjects, wanted, settings, budget, collected, record, empty)
            except KeyboardInterrupt:
                collected.close()
                collected.interrupted(INTERRUPTED)
                raise DiffInterrupted(collected.report(empty, time.perf_counter() - started)) from None
            except OutOfTime as late:
                collected.interrupted(late.reason)
            seconds = time.perf_counter() - started
            if not budget.over:
                # Otherwise it stays in the store as a run that was cut short.
                record.finish(seconds)
        report = collected.report(empty, seconds)
        if record.failure is not None:
            raise StoreNotWritten(str(record.failure), report)
        return report

    def _run(
        self, subjects: Iterable[Subject], wanted: Sequence[PlatformName], settings: RunSettings, budget: TimeBudget,
        collected: Collected, record: RunRecord, empty: Report,
    ) -> None:  # fmt: skip
        """Runs every subject on every platform. Raises `OutOfTime` where something runs on after the time budget: it is
        left to itself, and nothing of it is taken."""
        named = with_distinct_names(list(subjects))
        collected.expect(named)
        sources = {"sources": {each.name: each.source for each in named}}
        record.begin(empty.created, empty.version, empty.platforms, wanted, sources)
        execute = _until_closed(budget.limited(self._pool.run), collected)
        context = RunContext(execute, settings, self._tensors, self._pool.describe, script=culprit_script)
        prepare = partial(self._import_judge, wanted)
        one = SubjectRunner(context, wanted, collected, record, budget, prepare, self._gate, self._pool.release)
        batches = Batches.of(self._pool, [settings.reference, *wanted], settings.deadline_s, budget)
        # Leaving an executor as a context would wait for what is under way, also after Ctrl-C.
        threads = ThreadPoolExecutor(self._busy, "mindgap-model")
        running: Future[None] = Future()

        def run() -> None:
            try:
                if batches.size > 1 and len(named) > 1:
                    _run_in_batches(one, batches, named, threads)
                else:
                    _ = [*threads.map(one.run, range(len(named)), named)]
                running.set_result(None)
            except BaseException as error:
                running.set_exception(error)

        try:
            threading.Thread(target=run, name="mindgap-comparison", daemon=True).start()
            left = budget.left()
            running.result(None if left is None else left + _GRACE_S)
            threads.shutdown()
        except BaseException as error:
            collected.close()
            threads.shutdown(wait=False, cancel_futures=True)
            stops = {each.stop for each in named if each.stop is not None}
            for stop in stops | {each.program.stop for each in named if each.program is not None}:
                stop()
            self._pool.close()
            self._open_pool()
            if isinstance(error, TimeoutError) and not running.done():
                raise OutOfTime from None
            raise

    def _import_judge(self, platforms: Sequence[PlatformName]) -> None:
        """Imports the judge in another thread if a worker still starts. Most platforms that start slowly need it.

        A core is idle then, and the import takes as long as that of PyTorch.
        """
        if self._judge_import is None and not self._pool.opened(platforms):
            self._judge_import = threading.Thread(target=importlib.import_module, args=("mindgap.judge.trace.judge",))
            self._judge_import.start()

    def _facts_of(
        self, platforms: Sequence[PlatformName], reference: PlatformName, skip: bool
    ) -> tuple[PlatformFacts, ...]:
        """The facts of platforms, looked up once. Raises `PlatformError`."""
        key = (*platforms, str(skip))
        if key not in self._facts:
            self._facts[key] = facts_of(platforms, reference=reference, skip_unavailable=skip)
        return self._facts[key]

    def _program(
        self, model: Graph | Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> OwnProgram | None:
        if isinstance(model, Graph):
            return None
        from mindgap.own_path.here import ProgramHere

        return ProgramHere(model, args, kwargs or {})

    def _captured(
        self, model: Graph | Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None, backward: bool,
        path_taken: bool,
    ) -> Graph:  # fmt: skip
        if isinstance(model, Graph):
            if self._own:
                self._tensors.copy(stored_keys(model), default_tensor_store())
            return model
        from mindgap.graph_capture import capture

        return capture(model, args, kwargs, tensors=self._tensors, backward=backward, path_taken=path_taken)


def _until_closed(execute: Callable[[Job], Outcome], collected: Collected) -> Callable[[Job], Outcome]:
    """`execute` while rows are taken. It raises `OutOfTime` for a job whose worker was ended because the comparison is:
    that is no failure of its platform. It raises `PlatformError` for a platform that cannot be opened."""

    def run(job: Job) -> Outcome:
        outcome = execute(job)
        if collected.closed and not outcome.ran:
            raise OutOfTime(INTERRUPTED)
        if outcome.reason is not None and outcome.reason.kind == "not_opened":
            raise PlatformError(outcome.message.partition("\n")[0])
        return outcome

    return run


def _run_in_batches(
    one: SubjectRunner, batches: Batches, subjects: Sequence[Subject], threads: ThreadPoolExecutor
) -> None:
    """Captures `batches.size` subjects, loads their graphs together, runs them, and goes on with the next."""
    numbered = enumerate(subjects)
    while batch := [*itertools.islice(numbered, batches.size)]:
        captured = threads.map(one.capture, *zip(*batch, strict=True))
        for group in batches.groups([each for each in captured if each is not None]):
            if len(group) > 1:
                one.collected.report_activity(group[0].subject.name, "", f"loading {len(group)} graphs together")
                batches.load([each.graph for each in group], threads)
            _ = [*threads.map(one.compare, group)]


def with_distinct_names(subjects: list[Subject]) -> list[Subject]:
    """The same subjects, alike names numbered: a row is known by its model's name."""
    often = Counter(subject.name for subject in subjects)
    seen: Counter[str] = Counter()
    named: list[Subject] = []
    for subject in subjects:
        seen[subject.name] += 1
        number = f"#{seen[subject.name]}" if often[subject.name] > 1 else ""
        named.append(
            dataclasses.replace(subject, name=subject.name + number, group=subject.group and subject.group + number)
        )
    return named


def _sets(args: Any) -> list[Sequence[Any]]:
    """Returns each set of arguments of a list of several tuples; anything else is one set, a tensor alone too."""
    if not isinstance(args, Sequence):
        return [(args,)]
    given = [*cast("Sequence[Any]", args)]
    several = isinstance(args, list) and len(given) > 1 and all(isinstance(each, tuple) for each in given)
    return given if several else [args]


def _read(
    model: Graph | Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None, ignored: Sequence[str],
    mask: str,
) -> Graph | Callable[..., Any]:  # fmt: skip
    """The model without the outputs, and places of outputs, that are not read."""
    if isinstance(model, Graph) or not (ignored or mask):
        return model
    from mindgap.sources.read_outputs import OutputSelection, read_outputs

    return read_outputs(model, args, kwargs or {}, OutputSelection(tuple(ignored), mask))


def _name_of(model: Callable[..., Any]) -> str:
    """A function's own name; a module's class."""
    return getattr(model, "__name__", None) or type(model).__name__
