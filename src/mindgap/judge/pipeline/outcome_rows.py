"""Makes rows of outcomes, with the verdict where status and digests decide it. Judges no output."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Mapping

from mindgap.graph import Graph, MindgapError
from mindgap.graph.compare.culprit import culprit_of
from mindgap.graph.compare.metrics import MANTISSA_BITS
from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.row_metrics import RowMetrics
from mindgap.graph.compare.verdict import Weakness
from mindgap.platforms.delegation import delegation_of
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import UNVERIFIED
from mindgap.results.reason_words import sentence
from mindgap.results.rows import Model, Refused, Row, identities, non_finite
from mindgap.run.identity import digest_of
from mindgap.run.outcome import Outcome


def row_of(name: str, outcome: Outcome) -> Row:
    """The row of an outcome before it is compared: no verdict."""
    return Row(
        model=name,
        platform=outcome.platform,
        status=outcome.status,
        verdict=None,
        message=outcome.message,
        signature=outcome.signature,
        timings=dict(outcome.timings),
        digests=identities(outcome),
        weaknesses=_unseen_fallbacks(outcome),
        delegation=delegation_of(outcome.facts),
        non_finite=non_finite(outcome),
        reasons=(outcome.reason,) if outcome.reason is not None else (),
    )


def not_run(name: str, platform: PlatformName, why: Reason) -> Row:
    """The row of a platform that was not run."""
    return Row(name, platform, "not_run", None, detail=sentence(why), reasons=(why,))


def unjudged(row: Row, why: Reason) -> Row:
    """The row of a difference that is not judged."""
    return dataclasses.replace(row, unjudged=True, detail=sentence(why), reasons=(*row.reasons, why))


def _unseen_fallbacks(outcome: Outcome) -> tuple[Weakness, ...]:
    reason = "it ended in the fallback of the device's package, and nothing shows where that runs"
    names: list[str] = outcome.facts.get(UNVERIFIED, [])
    return tuple(Weakness(-1, name.replace("::", ".", 1), "fallback check", reason) for name in names)


def row_of_reference(name: str, reference: Outcome) -> Row:
    """The row of a reference that is also one of the platforms."""
    row = dataclasses.replace(row_of(name, reference), detail="this is the reference itself")
    return as_identical(row, reference) if reference.ran else row


def compare_outcomes(name: str, outcome: Outcome, reference: Outcome) -> Row | None:
    """The row with its verdict where statuses and digests decide it. None where whole outputs must be judged."""
    row = row_of(name, outcome)
    culprit = culprit_of(-1, outcome.op) if outcome.op else None
    if outcome.status == "unsupported":
        return dataclasses.replace(row, culprit=culprit)
    if not reference.ran:
        return _without_reference(row, outcome, reference)
    if not outcome.ran:
        return dataclasses.replace(row, verdict="failed", culprit=culprit, blame="platform")
    if outcome.status == reference.status == "ok" and row.digests == identities(reference):
        return as_identical(row, outcome)
    return None


def is_error(row: Row) -> bool:
    """Whether a platform reports that it fails: neither a crash nor a timeout."""
    return row.verdict == "failed" and row.status in ("compile_error", "runtime_error")


def is_traced(row: Row, trace: bool) -> bool:
    """Whether a row that `compare_outcomes` decided still goes to the judge: a failure, to find its operator."""
    return trace and row.verdict == "failed"


def _without_reference(row: Row, outcome: Outcome, reference: Outcome) -> Row:
    if not outcome.ran:
        return dataclasses.replace(row, detail="the reference failed as well: there is nothing to compare")
    if reference.status == "unsupported":
        return dataclasses.replace(row, detail=f"the reference does not support this: {reference.message}")
    detail = f"the reference failed: {reference.status}: {reference.message}"
    return dataclasses.replace(row, verdict="reference_failed", blame="reference", detail=detail)


def as_identical(row: Row, outcome: Outcome) -> Row:
    """The row with the verdict `identical` and the metrics that equal digests imply."""
    bits = [MANTISSA_BITS[d.dtype] for d in outcome.outputs if d.dtype in MANTISSA_BITS]
    metrics = RowMetrics(
        relative_error=0.0,
        max_abs=0.0,
        max_rel=0.0,
        max_ulp=0,
        remaining_precision=min(bits, default=None),
        cosine=1.0,
        mad=0.0,
        nan_mismatch=0,
        inf_mismatch=0,
        signed_zero_mismatch=0,
        top1_flips=0,
        top5_flips=0,
        outputs_differing=0,
        outputs=len(outcome.outputs),
    )
    profiles = {"paper": True, "assert_close": True}
    return dataclasses.replace(row, verdict="identical", metrics=metrics, profiles=profiles)


def model_of(name: str, graph: Graph, reference: Outcome, timings: Mapping[str, float]) -> Model:
    """The report's entry for a graph and the reference's run of it."""
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
        non_finite=non_finite(reference),
    )


def row_or_failure(name: str, platform: PlatformName, make: Callable[[], Row]) -> Row:
    """The row that `make` returns. Where mindgap itself fails, a row with the traceback in `broken`.

    `MindgapError` passes through: it is the user's to mend.
    """
    try:
        return make()
    except MindgapError:
        raise
    except Exception:
        return Row(name, platform, "ok", None, detail="mindgap failed", broken=traceback.format_exc())


def refusal(name: str, error: Exception) -> Refused:
    """The entry of a subject that gave no graph. An error other than `MindgapError` is a failure of mindgap's own."""
    if isinstance(error, MindgapError):
        return Refused(name, str(error))
    return Refused(name, f"mindgap failed: {error}", traceback.format_exc())
