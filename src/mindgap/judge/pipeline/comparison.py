"""Judges one graph on any number of platforms against one reference.

Digests are compared first. Small outputs travel with them; larger ones are fetched by a second run, and only where
digests differ. The judge of a graph is made at the first difference and serves all platforms.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Array, Graph, UnknownOperator, materialise_all
from mindgap.graph.activity import report_activity
from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.verdict import CALM
from mindgap.graph.tensors import TensorStore
from mindgap.judge.pipeline.outcome_rows import (
    compare_outcomes,
    is_error,
    is_traced,
    model_of,
    not_run,
    row_of,
    row_of_reference,
    unjudged,
)
from mindgap.judge.pipeline.time_budget import OutOfTime, reason_of_end
from mindgap.judge.trace.known_failures import KnownFailures
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import ACCURACY, HALF_WEIGHT_COPIES, MOST_COPIES, PYTORCH_DECOMPOSITIONS, WEIGHT_COPIES
from mindgap.results.rows import Model, Row
from mindgap.results.run_record import Describe
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Job, Outcome, Want

if TYPE_CHECKING:
    from mindgap.judge.trace.judge import Judge
    from mindgap.judge.trace.judgement import FoundFault, Judgement

Execute = Callable[[Job], Outcome]
#: Writes the script of a fault: the platform, the fault, the reference. Empty where it has no short form.
FaultScript = Callable[[PlatformName, "FoundFault", PlatformName], str]


#: Outputs of a graph that take at most so many bytes are fetched with their digests.
_ATTACHED_BYTES: Final = 1 << 20


def no_description(_: PlatformName) -> Mapping[str, Any]:
    """The description of a platform that is not at hand: empty."""
    return {}


def no_script(_platform: PlatformName, _found: FoundFault, _reference: PlatformName) -> str:
    """The script of a fault where none is read: empty."""
    return ""


@dataclass(frozen=True)
class RunContext:
    """Runs graphs under one session's settings.

    `execute`: runs a job on any platform. `tensors`: where tensors outside graphs are stored. `describe`: what a
    platform reports of itself. Its `dtypes` explain findings; `PYTORCH_DECOMPOSITIONS` excludes evidence, and by
    its `ACCURACY` findings are judged again. `failures`:
    what made platforms fail in the session's graphs. `script`: writes the script of each fault of a row.
    """

    execute: Execute
    settings: RunSettings
    tensors: TensorStore | None = None
    describe: Describe = no_description
    failures: KnownFailures = field(default_factory=KnownFailures)
    script: FaultScript = no_script

    def dtypes(self, platform: PlatformName) -> Mapping[str, Mapping[str, str]]:
        """What the platform does to each dtype; empty where it does not report it."""
        return self.describe(platform).get("dtypes", {})

    def decomposes(self, platform: PlatformName) -> bool:
        """Whether the platform declares that it compiles PyTorch's decompositions."""
        return bool(self.describe(platform).get(PYTORCH_DECOMPOSITIONS, False))

    def accuracy(self, platform: PlatformName) -> str:
        """The language that promises how accurate the platform's functions are; empty for none."""
        return str(self.describe(platform).get(ACCURACY, ""))

    def weight_copies(self, platform: PlatformName, half: float = 0.0) -> float:
        """How many copies of a graph's weights the platform makes for itself. `half`: the share of their bytes that are
        of 16 bits."""
        description = self.describe(platform)
        copies = float(description.get(WEIGHT_COPIES, MOST_COPIES))
        return copies + half * (float(description.get(HALF_WEIGHT_COPIES, copies)) - copies)

    def run(
        self, platform: PlatformName, graph: Graph, want: Want = "digests", inputs: Mapping[int, Array] | None = None
    ) -> Outcome:
        """Runs one job. `inputs`: arrays in place of the graph's own, by number."""
        limits = self.settings
        job = Job(platform, graph, want, limits.repeat, limits.deadline_s, inputs or {})
        return self.execute(dataclasses.replace(job, attach_up_to=_ATTACHED_BYTES))


class GraphComparison:
    """Compares platforms with the reference on one graph.

    The reference runs once. Its whole outputs and the judge are made when they are first needed. Thread-safe: platforms
    may run side by side, and are judged one after the other.
    """

    def __init__(
        self, context: RunContext, name: str, graph: Graph, reference: Outcome | None = None, whole: bool = False
    ) -> None:
        """`reference`: the reference's outcome, where it is already known. `whole`: ask for whole outputs at once, for
        a graph that takes long to load."""
        self.context = context
        self.name = name
        self.graph = graph
        self._want: Want = "outputs" if whole else "digests"
        self.reference = context.run(context.settings.reference, graph, self._want) if reference is None else reference
        #: The first outcome of each platform, by its name.
        self.outcomes: dict[PlatformName, Outcome] = {}
        self._whole: Outcome | None = None
        #: Whole outputs of the platforms that are being judged.
        self._wholes: dict[PlatformName, Outcome] = {}
        #: By the language that promises the accuracy of functions.
        self._judges: dict[str, Judge] = {}
        self._judging = threading.Lock()

    def model(self, timings: Mapping[str, float]) -> Model:
        """The report's entry for the graph and the reference's run."""
        return model_of(self.name, self.graph, self.reference, timings)

    def row(self, platform: PlatformName, errors_traced: bool = True) -> Row:
        """Runs the graph on `platform`, compares and judges. A failure of the platform is in the row, never raised.

        `errors_traced`: the operator of an error is looked for, as that of a crash is in any case.
        """
        if platform == self.context.settings.reference:
            return row_of_reference(self.name, self.reference)
        try:
            row = self.decide(self.run(platform), errors_traced)
        except (OutOfTime, HostProblem) as error:
            # What the judge was doing is half done: nothing is concluded of it. Outputs stay for `row_so_far`.
            self._judges.clear()
            return self.row_so_far(platform, reason_of_end(error))
        self._wholes.pop(platform, None)
        self.outcomes[platform] = dataclasses.replace(self.outcomes[platform], arrays=None, repeats=())
        return row

    def row_so_far(self, platform: PlatformName, why: Reason) -> Row:
        """The row of what is known of a platform, without a judge. `why`: why no more became known.

        Its verdict where status, digests or shapes decide it; else how far outputs are apart, where both sides' are at
        hand.
        """
        outcome = self.outcomes.get(platform)
        if outcome is None:
            return not_run(self.name, platform, why)
        decided = compare_outcomes(self.name, outcome, self.reference)
        if decided is not None:
            return decided
        row = row_of(self.name, outcome)
        whole, reference = self._wholes.get(platform, outcome), self._whole or self.reference
        if whole.arrays is not None and reference.arrays is not None:
            return without_judge(row, whole, reference, why)
        return unjudged(row, why)

    def run(self, platform: PlatformName) -> Outcome:
        """The platform's first outcome: runs the graph unless it has run already."""
        if platform not in self.outcomes:
            report_activity(f"running on {platform}")
            self.outcomes[platform] = self.context.run(platform, self.graph, self._want)
        return self.outcomes[platform]

    def decide(self, outcome: Outcome, errors_traced: bool = True) -> Row:
        """Compares an outcome with the reference's, and judges it where that does not decide."""
        row = compare_outcomes(self.name, outcome, self.reference)
        if row is None:
            return self._judged(row_of(self.name, outcome), outcome)
        settings = self.context.settings
        trace = settings.trace and settings.judge and (errors_traced or not is_error(row))
        return self._failure_traced(row, outcome) if is_traced(row, trace) else row

    def _judged(self, row: Row, outcome: Outcome) -> Row:
        """Runs both sides again for whole outputs where they are not at hand, and judges them."""
        whole = outcome
        if whole.arrays is None:
            report_activity("running again for whole outputs")
            whole = self.context.run(row.platform, self.graph, "outputs")
        self._wholes[row.platform] = whole
        row = dataclasses.replace(row, status=whole.status, message=whole.message or row.message)
        if not whole.ran:
            detail = "the platform ran once, and failed when it was run again"
            return dataclasses.replace(row, verdict="failed", blame="platform", detail=detail)
        with self._judging:
            reference = self._whole_reference()
            if not reference.ran:
                detail = f"the reference ran once, and failed when it was run again: {reference.message}"
                return dataclasses.replace(row, verdict="reference_failed", blame="reference", detail=detail)
            if not self.context.settings.judge:
                return without_judge(row, whole, reference, Reason("no_judge"))
            started = time.perf_counter()
            judge = self._the_judge()
            from mindgap.judge.oracle import OracleMemoryError

            try:
                judgement = judge.judge(whole, reference)
                language = self.context.accuracy(row.platform)
                if language and judgement.verdict not in CALM:
                    judgement = by_promise(judgement, self._the_judge(language).judge(whole, reference), language)
            except (OracleMemoryError, UnknownOperator) as error:
                return unjudged(row, Reason("memory", message=str(error)))
            return with_judgement(row, judgement, self.context, time.perf_counter() - started)

    def beyond_rounding(
        self, platform: PlatformName, outputs: Sequence[Array], inputs: Sequence[Array] | None = None
    ) -> list[bool]:
        """Returns, for each of these outputs, whether neither rounding nor the accuracy that the platform's language
        promises leads there. Raises `MindgapError` and `OracleError`. `inputs`: in place of the graph's own."""
        accuracy = self.context.accuracy(platform)
        with self._judging:
            judge = self._the_judge(accuracy) if inputs is None else self._new_judge(inputs, accuracy)
            return judge.beyond_rounding(outputs)

    def whole_reference(self) -> Outcome:
        """The reference's outcome with whole outputs, where it ran."""
        with self._judging:
            return self._whole_reference() if self.reference.ran else self.reference

    def _failure_traced(self, row: Row, outcome: Outcome) -> Row:
        """The same row with the operator that makes the platform fail."""
        with self._judging:
            started = time.perf_counter()
            try:
                judgement = self._the_judge().judge_failure(outcome)
            except (OutOfTime, UnknownOperator) as error:
                self._judges.clear()
                return dataclasses.replace(row, detail=f"{outcome.status} (no operator is named: {error})")
            return with_judgement(row, judgement, self.context, time.perf_counter() - started)

    def _whole_reference(self) -> Outcome:
        if self._whole is None:
            again = self.reference.arrays is None
            reference = self.context.settings.reference
            self._whole = self.context.run(reference, self.graph, "outputs") if again else self.reference
        return self._whole

    def _the_judge(self, accuracy: str = "") -> Judge:
        if accuracy not in self._judges:
            self._judges[accuracy] = self._new_judge(materialise_all(self.graph, self.context.tensors), accuracy)
        return self._judges[accuracy]

    def _new_judge(self, inputs: Sequence[Array], accuracy: str = "") -> Judge:
        from mindgap.judge.trace.judge import Judge

        settings = self.context.settings
        return Judge(
            self.graph,
            inputs,
            self.context.execute,
            settings.reference,
            trace=settings.trace,
            deadline_s=settings.deadline_s,
            internal=settings.internal,
            dtypes=self.context.dtypes,
            decomposes=self.context.decomposes,
            failures=self.context.failures,
            accuracy=accuracy,
        )


def by_promise(usual: Judgement, promised: Judgement, language: str) -> Judgement:
    """The judgement by what a language promises, of what is a finding by the usual bounds."""
    if promised.verdict not in CALM:
        return promised
    detail = f"beyond the usual bounds, within the accuracy that {language} promises: {usual.detail}"
    return dataclasses.replace(promised, detail=detail)


def without_judge(row: Row, outcome: Outcome, reference: Outcome, why: Reason) -> Row:
    """The row with how far the outputs are apart. Whether that is more than rounding stays open; another number, shape
    or dtype of outputs is a finding without a judge. `why`: why there is none."""
    from mindgap.judge.trace.metrics import fixed_tolerances, row_metrics

    assert outcome.arrays is not None and reference.arrays is not None, "both were asked for whole outputs"
    ours, theirs = ([(str(a.dtype), a.shape) for a in side] for side in (outcome.arrays, reference.arrays))
    if ours != theirs:
        detail = "outputs have another number, shape or dtype than the reference's; no judge looked for the operator"
        return dataclasses.replace(row, verdict="structural", blame="undecided", detail=detail)
    return dataclasses.replace(
        unjudged(row, why), metrics=row_metrics(outcome.arrays, reference.arrays, None),
        profiles=fixed_tolerances(outcome.arrays, reference.arrays),
    )  # fmt: skip


def with_judgement(row: Row, judgement: Judgement, context: RunContext, seconds: float) -> Row:
    """The row with the judge's decision, and a script for each fault that has a short one. `seconds`: how long the
    judge took."""
    faults = tuple(
        dataclasses.replace(fault.fault, script=context.script(row.platform, fault, context.settings.reference))
        for fault in judgement.faults
    )
    judged = dataclasses.replace(
        row,
        verdict=judgement.verdict,
        blame=judgement.blame,
        culprit=judgement.culprit,
        profiles=judgement.profiles,
        metrics=judgement.metrics,
        verdicts=judgement.verdicts,
        detail=judgement.detail,
        nodes=tuple(judgement.nodes),
        around=judgement.around,
        weaknesses=(*row.weaknesses, *judgement.weaknesses),
        contradictions=judgement.contradictions,
        decisions=judgement.decisions,
        example=judgement.example,
        script=faults[0].script if faults else "",
        faults=faults,
        timings={**row.timings, "judge": seconds},
    )
    return dataclasses.replace(judged, faults=judged.independent_faults)
