"""Classifies a cause by the taxonomy of the paper "Mind the Gap" (arXiv 2511.11601): causes of discrepancy, Table I."""

from __future__ import annotations

import re
from typing import Final

from mindgap.findings.causes.cause import CauseClass, Damage
from mindgap.findings.reduction.files import Summary
from mindgap.graph.operators.registry import traits
from mindgap.results.failure_rules import rule_of

#: Platforms that run each operator by itself: what fails there is an operator, not a compiler.
_EAGER: Final = re.compile(r"^[^/]+/eager(@|$)")
_OF_FAILURES: Final[dict[str, CauseClass]] = {
    "stalled": "stalled",
    "unsupported_operator": "unsupported",
    "crash": "crash",
    "code_generation": "code generation",
}


def class_of(damage: Damage, finding: Summary) -> CauseClass:
    """The class of a cause with this finding. Every finding has one.

    Results: `scheduling` where two runs of the platform differ; `undefined behaviour` where no standard defines what is
    wrong; `exceptional values` where NaN or infinity is on one side only; else `operator implementation`. Failures:
    `stalled`, `crash`, `unsupported` by status and message; else `code generation`, or `operator implementation` where
    the platform compiles nothing.
    """
    if damage == "hang":
        return "stalled"
    if damage == "crash":
        return "crash"
    if damage == "failure":
        rule = rule_of(finding.status, finding.signature)
        other: CauseClass = "operator implementation" if _EAGER.match(finding.platform) else "code generation"
        cause_class = _OF_FAILURES.get(rule.type if rule is not None else "", other)
        return other if cause_class == "code generation" else cause_class
    if finding.status == "nondeterministic":
        return "scheduling"
    if damage in ("values", "special values") and _is_undefined(finding):
        return "undefined behaviour"
    return "exceptional values" if finding.verdict == "exceptional" else "operator implementation"


def _is_undefined(finding: Summary) -> bool:
    """Whether no standard defines the result: an integer past its limits or divided by zero, a shift past the width, a
    NaN or infinity cast to an integer."""
    if finding.policy is not None:
        return finding.policy.saturates
    whole = not any(dtype.startswith(("float", "bfloat", "complex")) for dtype in finding.dtypes)
    known = [traits(op) for op in finding.operators]
    divides = whole and any(each.undefined_where not in ("", "index written twice") for each in known)
    return divides or (finding.special_inputs and any(each.casts for each in known))
