"""Makes a cause of an entry of a facts file that no campaign found.

Such an entry names the operators, the dtypes and the platform, of a failure its message too. The id is that of the key
which a reduced finding with the same operators, dtypes and message would have, so that a later campaign finds the same
cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, get_args

from facts import Facts

from mindgap.findings.causes import Cause, ReducedGroup
from mindgap.findings.causes.cause import Damage
from mindgap.findings.causes.clusters import cause_of_cluster
from mindgap.findings.causes.key import cause_key_of_summary
from mindgap.findings.reduction.files import Summary
from mindgap.graph import MindgapError
from mindgap.platforms.name import recorded
from mindgap.platforms.stages import Stage

#: What a user gets -> the verdict, and the status of the platform's outcome, unless the entry says another verdict.
_VERDICTS: Final[Mapping[Damage, tuple[str, str]]] = {
    "values": ("discrepant", "ok"), "special values": ("exceptional", "ok"), "shape": ("structural", "ok"),
    "precision": ("reduced_precision", "ok"), "failure": ("failed", "compile_error"), "crash": ("failed", "crash"),
    "hang": ("failed", "timeout"),
}  # fmt: skip


def summary_of(facts: Facts) -> Summary:
    """The entry as a reduced finding that is short and verified. Raises `MindgapError` where it lacks something."""
    lacking = [name for name in ("platform", "dtypes", "found") if not getattr(facts, name)]
    lacking += ["signature"] if facts.damage == "failure" and not facts.signature else []
    if lacking or facts.damage not in _VERDICTS or facts.stage not in get_args(Stage):
        said = f"lacks {', '.join(lacking)}" if lacking else f"has no such: {facts.damage}, {facts.stage}"
        raise MindgapError(f"facts of {facts.script}: an entry without a campaign {said}")
    verdict, status = _VERDICTS[facts.damage]
    return Summary(
        title=f"{facts.platform}: {facts.title}",
        platform=recorded(facts.platform),
        verdict=facts.verdict or verdict,
        blame=facts.blame,
        operators=facts.operators,
        dtypes=facts.dtypes,
        signature=facts.signature,
        nodes=len(facts.operators),
        checks=0,
        seconds=0.0,
        complete=True,
        short=True,
        verified=True,
        script=facts.script,
        stage=facts.stage,  # type: ignore[arg-type]
        stage_evidence=facts.stage_evidence,
        status=status,
        special_inputs=facts.damage == "special values",
    )


def cause_of(facts: Facts) -> Cause:
    """The cause of an entry. It has no rows, since no campaign found it.

    An examined entry shows nothing undefined, though its operators may have operands for which nothing is defined.
    """
    summary = summary_of(facts)
    cause = cause_of_cluster(cause_key_of_summary(summary), [ReducedGroup(summary, 0, ())])
    return replace(cause, kind="operator implementation") if cause.kind == "undefined behaviour" else cause


def with_causes_by_hand(causes: Iterable[Cause], facts: Mapping[str, Facts]) -> list[Cause]:
    """The causes, and those of entries that name operators, unless a campaign found them since.

    Raises `MindgapError` where two causes have one id: then they are one cause, or the operators tell too little.
    """
    found = [cause for cause in causes if cause.rows or not _is_by_hand(cause, facts)]
    scripts = {finding.script for cause in found for finding in cause.findings}
    found += [cause_of(each) for each in facts.values() if each.operators and each.script not in scripts]
    by_id: dict[str, Cause] = {}
    for cause in found:
        other = by_id.setdefault(cause.id, cause)
        if other is not cause:
            names = f"{other.findings[0].script} and {cause.findings[0].script}"
            raise MindgapError(f"{names} have the key {cause.id}: merge them, or tell their operators apart")
    return found


def _is_by_hand(cause: Cause, facts: Mapping[str, Facts]) -> bool:
    entry = facts.get(cause.findings[0].script)
    return entry is not None and bool(entry.operators)
