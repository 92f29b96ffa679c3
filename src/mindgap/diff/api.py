"""Runs one model or many on platforms and reports the differences: `diff` and `diff_many`."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from mindgap.diff.platform_facts import facts_of, spelled
from mindgap.diff.subject import ProgressEvent, Subject
from mindgap.graph import Graph, MindgapError
from mindgap.graph.tensors import TensorStore, default_tensor_store
from mindgap.pipeline.compare import refusal, row_or_failure
from mindgap.pipeline.comparison import GraphComparison, RunContext
from mindgap.results.recording import Recording, recording
from mindgap.results.rows import Model, Refused, Report, Row
from mindgap.results.settings import RunSettings
from mindgap.run.pool import WorkerPool
from mindgap.store import Store

OnProgress = Callable[[ProgressEvent], None]


def diff(
    model: Graph | Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    platforms: Sequence[str],
    reference: str = "cpu/eager",
    trace: bool = True,
    name: str = "",
    repeat: int = 2,
    deadline_s: float = 300.0,
    tensors: TensorStore | None = None,
    backward: bool = False,
) -> Report:
    """Runs a model (or a captured graph) on every platform and compares each with the reference.

    `report.rows` has one row per platform, in the order given. Raises `MindgapError` where the model cannot be
    captured, or a platform is unknown or not available on this machine. What a platform does wrong is a row.
    `tensors` is where the weights are kept: by default the user's store for a graph that was captured before,
    and a temporary directory for a model. `backward`: the model's gradients are compared too (`capture_kernels`).
    """
    if backward and isinstance(model, Graph):
        raise MindgapError(
            "backward=True takes a model: a graph that was captured already has no program to go back through"
        )
    if tensors is None and not isinstance(model, Graph):
        with tempfile.TemporaryDirectory(prefix="mindgap-") as directory:
            return diff(
                model, args, kwargs, platforms=platforms, reference=reference, trace=trace, name=name,
                repeat=repeat, deadline_s=deadline_s, tensors=TensorStore(directory), backward=backward,
            )  # fmt: skip
    store = tensors or default_tensor_store()

    def graph() -> Graph:
        if isinstance(model, Graph):
            return model
        from mindgap.capture import capture

        return capture(model, args, kwargs, tensors=store, backward=backward)

    called = name or ("graph" if isinstance(model, Graph) else _name_of(model))
    settings = RunSettings(reference, trace, repeat, deadline_s)
    report = diff_many([Subject(called, graph)], platforms, settings=settings, tensors=store)
    for refused in report.refused:
        raise RuntimeError(refused.broken) if refused.broken else MindgapError(refused.reason)
    for row in report.rows:
        if row.broken:
            raise RuntimeError(f"mindgap failed while judging {row.platform}:\n{row.broken}")
    return report


def diff_many(
    subjects: Iterable[Subject],
    platforms: Sequence[str],
    *,
    settings: RunSettings | None = None,
    progress: OnProgress | None = None,
    tensors: TensorStore | None = None,
    jobs: int | None = None,
    skip_unavailable: bool = False,
    store: Store | None = None,
) -> Report:
    """Compares every subject on every platform. A subject that gives no graph is `refused`; the others continue.

    `jobs`: how many workers work at once (default: one per core). `skip_unavailable`: a platform that is not
    on this machine gives no rows, and its facts say why; otherwise it raises `PlatformError`, as does an unknown one.
    `store`: where everything is also written as it is found (weights are not). Raises `StoreError` where it cannot be.
    """
    started = time.perf_counter()
    settings = settings or RunSettings()
    tensors = tensors or default_tensor_store()
    settings = dataclasses.replace(settings, reference=spelled(settings.reference))
    asked = [spelled(platform) for platform in platforms]
    facts = facts_of([settings.reference, *asked], reference=settings.reference, skip_unavailable=skip_unavailable)
    there = {fact.platform for fact in facts if fact.available}
    wanted = [platform for platform in dict.fromkeys(asked) if platform in there]
    named = _distinct(list(subjects))
    tick = _Reporter(progress, len(named) * len(wanted))
    busy = jobs or os.cpu_count() or 2
    created, mindgap = datetime.now(UTC).isoformat(timespec="seconds"), version("mindgap")
    with (
        WorkerPool([settings.reference, *wanted], tensors=tensors, busy=busy) as pool,
        recording(store, settings, pool.describe) as record,
    ):
        record.begin(created, mindgap, facts, wanted)
        context = RunContext(pool.run, settings, tensors, pool.describe)
        with ThreadPoolExecutor(busy, "mindgap-model") as threads:
            waiting = [threads.submit(_one, context, *each, wanted, tick, record) for each in enumerate(named)]
            try:
                done = [future.result() for future in waiting]
            except BaseException:
                for future in waiting:
                    future.cancel()
                pool.close()
                raise
        seconds = time.perf_counter() - started
        record.finish(seconds)
    return Report(
        reference=settings.reference,
        platforms=facts,
        models=tuple(model for model, _, _ in done if model is not None),
        rows=tuple(row for _, rows, _ in done for row in rows),
        refused=tuple(refused for _, _, refused in done if refused is not None),
        created=created,
        version=mindgap,
        seconds=seconds,
    )


def _one(
    context: RunContext,
    position: int,
    subject: Subject,
    platforms: Sequence[str],
    tick: _Reporter,
    record: Recording,
) -> tuple[Model | None, list[Row], Refused | None]:
    """One subject from capture to its last row."""
    started = time.perf_counter()
    try:
        # Imported late: a process that only lists platforms needs no PyTorch.
        from mindgap.aten.state import TORCH_STATE

        with TORCH_STATE:
            graph = subject.graph()
    except Exception as error:
        tick("refused", subject.name, "", finished=len(platforms))
        return None, [], record.refused(position, refusal(subject.name, error))
    captured = time.perf_counter() - started
    tick("captured", subject.name, "")
    record.graph(subject.name, graph)
    comparison = GraphComparison(context, subject.name, graph)
    record.model(position, comparison.model({"capture": captured}), comparison.reference)
    tick("ran", subject.name, context.settings.reference)

    def row_of(platform: str) -> Row:
        row = row_or_failure(subject.name, platform, lambda: comparison.row(platform))
        record.row(graph, row, comparison.outcomes.get(platform))
        tick("judged", subject.name, platform, row)
        return row

    with ThreadPoolExecutor(max(len(platforms), 1), "mindgap-platform") as threads:
        rows = list(threads.map(row_of, platforms))
    return comparison.model({"capture": captured}), rows, None


class _Reporter:
    """Counts finished rows and passes each tick on, one at a time."""

    def __init__(self, progress: OnProgress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def __call__(self, stage: Any, model: str, platform: str, row: Row | None = None, finished: int = 0) -> None:
        with self._lock:
            self._done += finished + (row is not None)
            if self._progress is not None:
                self._progress(ProgressEvent(stage, model, platform, self._done, self._total, row))


def _distinct(subjects: list[Subject]) -> list[Subject]:
    """The same subjects, alike names numbered: a row is known by its model's name."""
    often = Counter(subject.name for subject in subjects)
    seen: Counter[str] = Counter()
    named: list[Subject] = []
    for subject in subjects:
        seen[subject.name] += 1
        number = f"#{seen[subject.name]}" if often[subject.name] > 1 else ""
        named.append(dataclasses.replace(subject, name=subject.name + number))
    return named


def _name_of(model: Callable[..., Any]) -> str:
    """A function's own name; a module's class."""
    return getattr(model, "__name__", None) or type(model).__name__
