"""Runs one graph on the reference and on every platform, and has each difference judged.

Digests first: whole outputs travel only where they differ. A judge is made for a graph when the
first difference asks for one, and serves all its platforms.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from mindgap.compare.metrics import MANTISSA_BITS
from mindgap.diff.rows import Culprit, Model, Refused, Row
from mindgap.graph import Graph, MindgapError, materialise_all
from mindgap.graph.tensors import TensorStore
from mindgap.platforms.protocol import PYTORCH_DECOMPOSITIONS
from mindgap.run.identity import digest_of
from mindgap.run.outcome import Job, Outcome, Want

if TYPE_CHECKING:
    from mindgap.trace.judge import Judge
    from mindgap.trace.judgement import Judgement

Execute = Callable[[Job], Outcome]
#: Gives what a platform says of itself.
Describe = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run and judge. `deadline_s`: for one job, loading and compiling included. `trace`: look for culprits.
    `internal`: judge results that no public function returns like any other."""

    reference: str = "cpu/eager"
    trace: bool = True
    repeat: int = 2
    deadline_s: float = 300.0
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to run: its name, and what gives its graph, which may raise `MindgapError`: then it is refused."""

    name: str
    graph: Callable[[], Graph]


@dataclass(frozen=True, slots=True)
class Tick:
    """One thing has been done: `captured`, `ran` or `judged`; `done` of `total` rows are finished.

    `row` comes with `judged`.
    """

    stage: Literal["captured", "ran", "judged", "refused"]
    model: str
    platform: str
    done: int
    total: int
    row: Row | None = None


#: What a platform and the reference did -> why there is nothing to compare.
_BOTH_FAILED: Final = "the reference failed as well: there is nothing to compare"


def says_nothing(_: str) -> Mapping[str, Any]:
    """The description of platforms of which none is at hand."""
    return {}


@dataclass(frozen=True)
class Bench:
    """Where a graph runs: something that executes jobs, the tensors kept beside graphs, and the settings.

    `describe`: a platform's description. Its `dtypes` explain findings; `PYTORCH_DECOMPOSITIONS` excludes evidence.
    """

    execute: Execute
    settings: Settings
    tensors: TensorStore | None = None
    describe: Describe = says_nothing

    def dtypes(self, platform: str) -> Mapping[str, Mapping[str, str]]:
        """What the platform does to each dtype; empty where it does not say."""
        return self.describe(platform).get("dtypes", {})

    def decomposes(self, platform: str) -> bool:
        """Whether the platform declares that it compiles PyTorch's decompositions."""
        return bool(self.describe(platform).get(PYTORCH_DECOMPOSITIONS, False))

    def run(self, platform: str, graph: Graph, want: Want = "digests") -> Outcome:
        """One job under the settings."""
        limits = self.settings
        return self.execute(Job(platform, graph, want=want, repeat=limits.repeat, deadline_s=limits.deadline_s))


class Comparison:
    """One graph against its reference. The reference runs once; its whole outputs and the judge are made when
    first needed. Thread-safe: platforms may run side by side, and are judged one after the other."""

    def __init__(self, bench: Bench, name: str, graph: Graph, reference: Outcome | None = None) -> None:
        """`reference`: what the reference did, where that is known."""
        self.bench = bench
        self.name = name
        self.graph = graph
        self.reference = bench.run(bench.settings.reference, graph) if reference is None else reference
        #: What each platform did the first time, by its name.
        self.outcomes: dict[str, Outcome] = {}
        self._whole: Outcome | None = None
        self._judge: Judge | None = None
        self._judging = threading.Lock()

    def model(self, timings: Mapping[str, float]) -> Model:
        """What a report says of the graph and of the reference's run."""
        return model_of(self.name, self.graph, self.reference, timings)

    def row(self, platform: str) -> Row:
        """Runs the graph on `platform` and compares. What goes wrong there is in the row, never raised."""
        if platform == self.bench.settings.reference:
            return self._row_of_reference()
        outcome = self.outcomes[platform] = self.bench.run(platform, self.graph)
        return self.settled(outcome)

    def settled(self, outcome: Outcome) -> Row:
        """The row of what a platform did, judged where it must be."""
        row = row_of(self.name, outcome)
        decided = without_judging(row, outcome, self.reference)
        if decided is None:
            return self._judged(row)
        if decided.verdict == "failed" and self.bench.settings.trace:
            return self._failure_traced(decided, outcome)
        return decided

    def _row_of_reference(self) -> Row:
        return row_of_reference(self.name, self.reference)

    def _judged(self, row: Row) -> Row:
        """The second pass: whole outputs of both sides, and the judge's word on them."""
        whole = self.bench.run(row.platform, self.graph, "outputs")
        row = dataclasses.replace(row, status=whole.status, message=whole.message or row.message)
        if not whole.ran:
            detail = "the platform ran once, and failed when it was run again"
            return dataclasses.replace(row, verdict="failed", blame="platform", detail=detail)
        with self._judging:
            reference = self._whole_reference()
            if not reference.ran:
                detail = f"the reference ran once, and failed when it was run again: {reference.message}"
                return dataclasses.replace(row, verdict="reference_failed", blame="reference", detail=detail)
            started = time.perf_counter()
            judgement = self._the_judge().judge(whole, reference)
            return with_judgement(row, judgement, time.perf_counter() - started)

    def _failure_traced(self, row: Row, outcome: Outcome) -> Row:
        """The same row with the operator that makes the platform fail."""
        with self._judging:
            started = time.perf_counter()
            judgement = self._the_judge().judge_failure(outcome)
            return with_judgement(row, judgement, time.perf_counter() - started)

    def _whole_reference(self) -> Outcome:
        if self._whole is None:
            self._whole = self.bench.run(self.bench.settings.reference, self.graph, "outputs")
        return self._whole

    def _the_judge(self) -> Judge:
        if self._judge is None:
            from mindgap.trace.judge import Judge

            inputs = materialise_all(self.graph, self.bench.tensors)
            settings = self.bench.settings
            self._judge = Judge(
                self.graph,
                inputs,
                self.bench.execute,
                settings.reference,
                trace=settings.trace,
                deadline_s=settings.deadline_s,
                internal=settings.internal,
                dtypes=self.bench.dtypes,
                decomposes=self.bench.decomposes,
            )
        return self._judge


def model_of(name: str, graph: Graph, reference: Outcome, timings: Mapping[str, float]) -> Model:
    """What a report says of a graph and of the reference's run."""
    return Model(
        name=name,
        digest=digest_of(graph),
        nodes=len(graph.nodes),
        operators=len({node.op for node in graph.nodes}),
        inputs=tuple(str(given.spec) for given in graph.inputs if given.role == "input"),
        outputs=tuple(str(graph.values[index]) for index in graph.outputs),
        reference_status=reference.status,
        reference_message=reference.message,
        reference_digests=identities(reference),
        timings={**timings, **reference.timings},
    )


def row_of(name: str, outcome: Outcome) -> Row:
    """What an outcome alone says, without a verdict."""
    return Row(
        model=name,
        platform=outcome.platform,
        status=outcome.status,
        verdict=None,
        message=outcome.message,
        signature=outcome.signature,
        timings=dict(outcome.timings),
        digests=identities(outcome),
    )


def shielded(name: str, platform: str, judge: Callable[[], Row]) -> Row:
    """A row, or, where mindgap itself fails on it, one that says so: it costs no other, is counted and told apart."""
    try:
        return judge()
    except MindgapError:
        raise
    except Exception:
        return Row(name, platform, "ok", None, detail="mindgap failed", broken=traceback.format_exc())


def refusal(name: str, error: Exception) -> Refused:
    """Of a subject with this error at hand, which is `MindgapError` unless mindgap itself failed."""
    if isinstance(error, MindgapError):
        return Refused(name, str(error))
    return Refused(name, f"mindgap failed: {error}", traceback.format_exc())


def row_of_reference(name: str, reference: Outcome) -> Row:
    """The row of a reference that is one of the platforms."""
    row = dataclasses.replace(row_of(name, reference), detail="this is the reference itself")
    return as_identical(row, reference) if reference.ran else row


def without_judging(row: Row, outcome: Outcome, reference: Outcome) -> Row | None:
    """The row with its verdict where no output has to be looked at, None where one must."""
    if outcome.status == "unsupported":
        return dataclasses.replace(row, verdict=None)
    if not reference.ran:
        if outcome.ran and reference.status != "unsupported":
            detail = f"the reference failed: {reference.status}: {reference.message}"
            return dataclasses.replace(row, verdict="reference_failed", blame="reference", detail=detail)
        detail = _BOTH_FAILED if not outcome.ran else f"the reference does not support this: {reference.message}"
        return dataclasses.replace(row, verdict=None, detail=detail)
    if not outcome.ran:
        culprit = Culprit(-1, outcome.op) if outcome.op else None
        return dataclasses.replace(row, verdict="failed", culprit=culprit, blame="platform")
    if outcome.status == reference.status == "ok" and row.digests == identities(reference):
        return as_identical(row, outcome)
    return None


def as_identical(row: Row, outcome: Outcome) -> Row:
    """The row with the figures that equal digests imply; nothing has to be measured for them."""
    bits = [MANTISSA_BITS[d.dtype] for d in outcome.outputs if d.dtype in MANTISSA_BITS]
    metrics = {
        "relative_error": 0.0,
        "max_abs": 0.0,
        "max_rel": 0.0,
        "max_ulp": 0,
        "remaining_precision": min(bits, default=None),
        "cosine": 1.0,
        "mad": 0.0,
        "nan_mismatch": 0,
        "inf_mismatch": 0,
        "signed_zero_mismatch": 0,
        "top1_flips": 0,
        "top5_flips": 0,
        "outputs_differing": 0,
        "outputs": len(outcome.outputs),
    }
    profiles = {"paper": True, "assert_close": True}
    return dataclasses.replace(row, verdict="identical", metrics=metrics, profiles=profiles)


def with_judgement(row: Row, judgement: Judgement, seconds: float) -> Row:
    """The row as the judge decided it. `profiles` are taken out of the metrics, where the judge puts them."""
    metrics = dict(judgement.metrics)
    culprit = judgement.culprit
    return dataclasses.replace(
        row,
        verdict=judgement.verdict,
        blame=judgement.blame,
        culprit=None if culprit is None else Culprit(culprit.node, culprit.op, culprit.label),
        profiles={name: bool(metrics.pop(name)) for name in ("paper", "assert_close") if name in metrics},
        metrics=metrics,
        detail=judgement.detail,
        nodes=tuple(judgement.nodes),
        timings={**row.timings, "judge": seconds},
    )


def identities(outcome: Outcome) -> tuple[str, ...]:
    """One text per output that is equal only where dtype, shape and bytes are; none for what did not run."""
    if not outcome.ran:
        return ()
    return tuple(f"{d.dtype}{list(d.shape)}:{d.digest}" for d in outcome.outputs)
