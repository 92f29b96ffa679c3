"""Compares what a platform computes for probes with the reference, and judges it where digests differ.

The outputs come from the jobs in which a survey asks a platform (`prober.ask`). A finding among several calls of one
job is looked at again with the call alone, since a compiler may fuse unrelated calls. What is wrong only with others
has a separate word.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from mindgap.graph import Graph, concatenate
from mindgap.graph.compare.verdict import CALM
from mindgap.graph.operators.registry import traits
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.pipeline.outcome_rows import row_or_failure
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.results.rows import Row, identities
from mindgap.results.settings import RunSettings
from mindgap.results.store import Store
from mindgap.results.store.records import writable
from mindgap.results.support_key import Key
from mindgap.run.cpu import CpuMeter
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import JobRunner
from mindgap_surveys.support.prober import SurveyBudget, plain_first
from mindgap_surveys.support.probes import CallProbe

#: Words of an agreement that are no verdict.
RANDOM: Final = "random"
UNINITIALISED: Final = "uninitialised"
NOT_JUDGED: Final = "not_judged"
NO_REFERENCE: Final = "no_reference"
BESIDE_OTHERS: Final = "beside_others"
_SETTINGS: Final = RunSettings(trace=False, repeat=1, deadline_s=120.0)
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class Agreement:
    """How what a platform computes for a key compares with the reference.

    word: the verdict of the first sample that runs; `random` where the operator draws random numbers,
        `uninitialised` where no kernel writes its results, `not_judged` where its digests differ and it was not judged,
        `no_reference` where the reference gives nothing to compare with, or results without elements, `beside_others`
        where it is a finding among other calls in one graph and calm alone.
    culprit: of a finding, the operator, or the dtype policy that explains it.
    relative_error, max_abs: of the output that differs most; None where it was not measured.
    """

    op: str
    dtype: str
    layout: str
    word: str
    blame: str = ""
    culprit: str = ""
    detail: str = ""
    relative_error: float | None = None
    max_abs: float | None = None

    @property
    def key(self) -> Key:
        return Key(self.op, self.dtype, self.layout)

    @property
    def calm(self) -> bool:
        return self.word in CALM


def read_agreements(
    store: Store, platforms: Mapping[PlatformName, str], reference: str
) -> dict[str, dict[Key, Agreement]]:
    """Reads what is known of platforms against a reference, by fingerprint. `reference`: its fingerprint."""
    agreements: dict[str, dict[Key, Agreement]] = {fingerprint: {} for fingerprint in platforms.values()}
    columns = ", ".join(Agreement.__dataclass_fields__)
    sql = (
        f"SELECT fingerprint, {columns} FROM agreement "
        "WHERE list_contains($wanted, fingerprint) AND reference = $reference"
    )
    for row in store.rows(sql, {"wanted": sorted(agreements), "reference": reference}):
        fingerprint = row.pop("fingerprint")
        agreement = Agreement(**row)
        agreements[fingerprint][agreement.key] = agreement
    return agreements


def agreement_row(platform: PlatformName, fingerprint: str, reference: str, found: Agreement) -> dict[str, Any]:
    """Returns the row for the table `agreement`."""
    texts = {"detail": writable(found.detail), "culprit": writable(found.culprit)}
    return {"platform": platform, "fingerprint": fingerprint, "reference": reference, **asdict(found), **texts}


class References:
    """What the reference gives for probes. Each is run twice, once for all platforms: a call that gives two results
    depends on something that is not in its graph. Thread-safe."""

    def __init__(self, pool: JobRunner) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._found: dict[bytes, tuple[Outcome, Outcome]] = {}

    def of(self, probes: Sequence[CallProbe], graphs: Sequence[Graph], attach: int) -> list[tuple[Outcome, Outcome]]:
        """Returns for each probe the outcomes of two runs, the second without arrays."""
        with self._lock:
            new = {
                probe.data: graph for probe, graph in zip(probes, graphs, strict=True) if probe.data not in self._found
            }
            if new:
                self._run(new, attach)
            return [self._found[probe.data] for probe in probes]

    def _run(self, new: Mapping[bytes, Graph], attach: int) -> None:
        first, second = (self._outcomes([*new.values()], attach) for _ in range(2))
        for data, one, other in zip(new, first, second, strict=True):
            self._found[data] = one, dataclasses.replace(other, arrays=None)

    def _outcomes(self, graphs: Sequence[Graph], attach: int) -> list[Outcome]:
        joined = graphs[0] if len(graphs) == 1 else concatenate(graphs)
        outcome = self._pool.run(Job(CPU_EAGER, joined, repeat=1, purpose="asking", attach_up_to=attach))
        if outcome.ran or len(graphs) == 1:
            return list(outcomes_of_calls(graphs, outcome))
        return [each for graph in graphs for each in self._outcomes([graph], attach)]


def outcomes_of_calls(graphs: Sequence[Graph], outcome: Outcome) -> Iterator[Outcome]:
    """Splits the outcome of graphs that ran side by side in one job into the outcomes of each."""
    begin = 0
    for graph in graphs:
        end = begin + len(graph.outputs)
        arrays = None if outcome.arrays is None else outcome.arrays[begin:end]
        yield dataclasses.replace(outcome, outputs=outcome.outputs[begin:end], arrays=arrays)
        begin = end


@dataclass(frozen=True)
class _Waiting:
    """A call whose digests differ. `alone`: it was the only call of its job."""

    probe: CallProbe
    graph: Graph
    outcome: Outcome
    reference: Outcome
    alone: bool


class Calm:
    """Calm rows of outputs that were judged already: another platform that gives the same bits gets the same verdict.

    Kept by the language that promises the platform's accuracy too (`RunContext.accuracy`; empty for none): what is calm
    by such a promise is so for no platform without it.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[bytes, tuple[str, ...], str], Row] = {}

    def get(self, waiting: _Waiting, accuracy: str) -> Row | None:
        """Returns the calm row of the same probe, outputs and accuracy."""
        return self._found.get((waiting.probe.data, identities(waiting.outcome), accuracy))

    def put(self, probe: CallProbe, row: Row, accuracy: str) -> None:
        """Keeps a calm row under the outputs that it was judged on. A finding names its platform, and is judged for
        each."""
        if row.verdict in CALM:
            self._found[probe.data, row.digests, accuracy] = row


class AgreementMeter:
    """Compares one platform with the reference. `keep` receives each agreement as it becomes known."""

    #: Outputs of a job that take at most so many bytes come with its digests.
    ATTACH: Final = 8 << 20

    def __init__(
        self, platform: PlatformName, pool: JobRunner, references: References, calm: Calm,
        keep: Callable[[Agreement], None],
    ) -> None:  # fmt: skip
        self._platform, self._pool, self._references = platform, pool, references
        self._calm, self._keep = calm, keep
        self._waiting: list[_Waiting] = []

    def on_run(self, probes: Sequence[CallProbe], graphs: Sequence[Graph], outcome: Outcome) -> None:
        """Compares the digests of calls that ran in one job. What differs waits for `judge`."""
        references = self._references.of(probes, graphs, self.ATTACH)
        parts = outcomes_of_calls(graphs, outcome)
        for probe, graph, part, (reference, again) in zip(probes, graphs, parts, references, strict=True):
            agreement = _without_judge(probe, part, reference, again)
            if agreement is not None:
                self._keep(agreement)
            else:
                self._waiting.append(_Waiting(probe, graph, part, reference, len(probes) == 1))

    def judge(self, budget: SurveyBudget, on_progress: Callable[[int, int, str], None]) -> None:
        """Judges what waits, float32 first, until the budget is gone; what is left is kept as `not_judged`."""
        queue = sorted(self._waiting, key=lambda each: (plain_first(each.probe.key), each.probe.key))
        meter = CpuMeter(self._pool.cpu, self._platform)
        for done, waiting in enumerate(queue):
            on_progress(done, len(queue), f"judging {waiting.probe.op}")
            if budget.gone:
                reason = "other bits than the reference; no time was left to judge it (--budget)"
                self._keep(Agreement(*waiting.probe.key, NOT_JUDGED, detail=reason))
                continue
            started = time.thread_time()
            agreement = self._judged(waiting)
            budget.spent += time.thread_time() - started + meter.read()
            self._keep(agreement)
        self._waiting = []

    def _judged(self, waiting: _Waiting) -> Agreement:
        """Judges what the platform gave; a finding among other calls again with the call alone."""
        probe = waiting.probe
        context = RunContext(self._execute, _SETTINGS, describe=self._pool.describe)
        accuracy = context.accuracy(self._platform)
        known = self._calm.get(waiting, accuracy)
        if known is not None:
            return _agreement(probe.key, known)
        comparison = GraphComparison(context, probe.op, waiting.graph, waiting.reference)

        def alone() -> Row:
            return comparison.decide(comparison.run(self._platform))

        # Without its outputs the judge would run the call again, alone: the row is then of that run's bits.
        attached = waiting.outcome.arrays is not None
        make = partial(comparison.decide, waiting.outcome) if attached else alone
        row = row_or_failure(probe.op, self._platform, make)
        self._calm.put(probe, row, accuracy)
        if not (attached or waiting.alone or row.finding or row.digests == identities(waiting.outcome)):
            detail = f"alone: {row.word}; beside other calls in one graph it gave other bits, too large to keep"
            return Agreement(*probe.key, NOT_JUDGED, detail=detail)
        if waiting.alone or not attached or not row.finding:
            return _agreement(probe.key, row)
        single = row_or_failure(probe.op, self._platform, alone)
        self._calm.put(probe, single, accuracy)
        if single.verdict not in CALM:
            return _agreement(probe.key, single)
        agreement = _agreement(probe.key, row)
        detail = f"alone: {single.verdict}; beside other calls in one graph: {row.verdict}: {agreement.detail}"[
            :_LONGEST
        ]
        return dataclasses.replace(agreement, word=BESIDE_OTHERS, detail=detail)

    def _execute(self, job: Job) -> Outcome:
        return self._pool.run(dataclasses.replace(job, purpose="judging"))


def _without_judge(probe: CallProbe, outcome: Outcome, reference: Outcome, again: Outcome) -> Agreement | None:
    """The agreement where no judge is needed; None where digests differ. `again`: the reference's second run.

    Of results that are no function of the operands, dtypes and shapes are compared: where both runs of the reference
    have the same.
    """
    undetermined = _undetermined(probe.op, reference, again)
    if undetermined is not None:
        word, detail = undetermined
        ours, theirs = _forms(outcome), _forms(reference)
        if reference.ran and theirs == _forms(again) != ours:
            detail = f"its results are {', '.join(ours)}, the reference's {', '.join(theirs)}"[:_LONGEST]
            return Agreement(*probe.key, "structural", "undecided", probe.op, detail)
        return Agreement(*probe.key, word, detail=detail)
    if not reference.ran:
        return Agreement(*probe.key, NO_REFERENCE, detail=f"the reference gave nothing: {reference.message}"[:_LONGEST])
    if identities(outcome) != identities(reference):
        return None
    if all(0 in each.shape for each in reference.outputs):
        detail = "its results have no element: only dtypes and shapes were compared, and they are the reference's"
        return Agreement(*probe.key, NO_REFERENCE, detail=detail)
    return Agreement(*probe.key, "identical", relative_error=0.0, max_abs=0.0)


def _undetermined(op: str, reference: Outcome, again: Outcome) -> tuple[str, str] | None:
    """The word, and why, of results that are no function of the operands; None where they are one."""
    if traits(op).returns_uninitialised:
        return UNINITIALISED, "nobody writes its results: they are what the memory held"
    if traits(op).random:
        return RANDOM, "it draws random numbers: two platforms need not agree"
    if reference.ran and identities(reference) != identities(again):
        return RANDOM, "two runs of the reference differ: it draws random numbers, or reads memory that nobody wrote"
    return None


def _forms(outcome: Outcome) -> tuple[str, ...]:
    """Dtype and shape of each output, as text."""
    return tuple(f"{each.dtype}{list(each.shape)}" for each in outcome.outputs)


def _agreement(key: Key, row: Row) -> Agreement:
    if row.broken:
        error = row.broken.strip().splitlines()[-1]
        return Agreement(*key, NOT_JUDGED, detail=f"mindgap's judge failed, please report it: {error}"[:_LONGEST])
    detail = " ".join((row.detail or row.message).split())[:_LONGEST]
    return Agreement(
        *key, row.verdict or NOT_JUDGED, row.blame or "", row.culprit.op if row.culprit else "", detail,
        _number(row.metrics.get("relative_error")), _number(row.metrics.get("max_abs")),
    )  # fmt: skip


def _number(value: float | str | None) -> float | None:
    """The metric as a number: infinity is the text `inf` in a row."""
    return None if value is None else float(value)
