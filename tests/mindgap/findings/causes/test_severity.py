"""Causes are ranked by what a user would lose, and by how many models meet the condition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from findings.causes.made_summaries import group, summary
from mindgap.findings.causes import ConditionUse, causes_of, severity_of
from mindgap.findings.causes.cause import Damage, Severity
from mindgap.findings.causes.operator_calls import models_using

ORT = "onnxruntime/cpu"
ANY_SOFTMAX = ConditionUse(("softmax",), condition="any input")
#: No counted model gives it.
DIVISOR = ConditionUse(
    ("avg_pool2d",), 'args.get("divisor_override") is not None', "`divisor_override` is given"
)  # fmt: skip


def test_silent_errors_come_first_and_internal_results_last() -> None:
    found = [
        summary(ORT, "discrepant", "softmax"),
        summary(ORT, "discrepant", "special_erfcx"),
        summary(ORT, "exceptional", "special_zeta", special=True),
        summary(ORT, "reduced_precision", "special_zeta"),
        summary(ORT, "failed", "special_zeta", signature="no"),
        replace(summary(ORT, "discrepant", "native_layer_norm"), internal=True),
    ]
    groups = [replace(group(each, rows=number), use=None) for number, each in enumerate(found, 1)]
    groups[0] = replace(groups[0], use=ANY_SOFTMAX)
    causes = causes_of(groups)
    assert [cause.severity for cause in causes] == ["critical", "high", "medium", "low", "low", "low"]
    order = [cause.operators[0].split(".")[1] for cause in causes]
    assert order[:2] == ["softmax", "special_erfcx"] and causes[2].damage == "special values"
    assert "no public function" in next(c for c in causes if "layer_norm" in c.title).severity_reason
    assert (causes[0].condition, causes[0].uses) == ("any input", ANY_SOFTMAX.text)


def test_the_reason_is_one_sentence_with_the_condition_and_how_many_models_meet_it() -> None:
    severity, reason = severity_of("values", [["aten.avg_pool2d.default"]], use=DIVISOR)
    used = models_using("avg_pool2d")
    assert severity == "high" and used > 100
    assert reason == (
        "It gives wrong values without a message, where `divisor_override` is given, which 0 of 2,252 counted models"
        f" do (avg_pool2d: {used})."
    )
    assert DIVISOR.text == f"0 of 2,252 (avg_pool2d: {used})"
    assert severity_of("values", [], use=replace(DIVISOR, where=""))[0] == "critical"
    severity, reason = severity_of("values", [], use=ANY_SOFTMAX)
    assert severity == "critical" and ", in every call of softmax, which " in reason


def test_a_condition_that_no_call_shows_is_not_given_a_number() -> None:
    for values_only in (False, True):
        use = ConditionUse((), "", "an input is read by nothing", values_only)
        assert severity_of("values", [["aten.mul.Tensor"]], use=use)[1] == (
            "It gives wrong values without a message, where an input is read by nothing; no call of an operator shows"
            " that, so that it was not counted."
        )


@pytest.mark.parametrize(
    ("damage", "error", "common", "rare"),
    [
        ("values", None, "critical", "high"),
        ("values", 0.001, "critical", "high"),
        ("values", 0.0009, "medium", "low"),
        ("special values", 0.0009, "high", "medium"),
        ("shape", None, "high", "medium"),
        ("precision", None, "medium", "low"),
        ("crash", None, "medium", "medium"),
        ("hang", None, "medium", "medium"),
        ("failure", None, "medium", "low"),
    ],
)
def test_each_damage_has_two_severities(damage: Damage, error: float | None, common: Severity, rare: Severity) -> None:
    assert severity_of(damage, [], use=ANY_SOFTMAX, error=error)[0] == common
    assert severity_of(damage, [], use=DIVISOR, error=error)[0] == rare
    assert severity_of(damage, [], use=ANY_SOFTMAX, error=error, internal=True)[0] == "low"


def test_memory_outside_a_tensor_ranks_like_wrong_values_however_small_the_error() -> None:
    severity, reason = severity_of("values", [], use=ANY_SOFTMAX, error=1e-9, outside=True)
    assert severity == "critical" and reason.startswith("It reads memory outside a tensor without a message")


def test_values_are_not_counted_and_only_ordinary_ones_make_a_cause_critical() -> None:
    odd = ConditionUse(("softmax",), condition="an element is above 80", values_only=True)
    severity, reason = severity_of("values", [], use=odd)
    assert (
        severity == "high" and "under a condition on values (an element is above 80); values were not counted" in reason
    )
    assert severity_of("values", [], use=replace(odd, ordinary_values=True))[0] == "critical"
    assert odd.text.startswith("at most ") and odd.text.endswith("; values were not counted")


def test_an_unknown_condition_counts_the_operator_and_is_never_critical() -> None:
    severity, reason = severity_of("values", [["aten._softmax.default"], ["aten.special_zeta.default"]])
    assert severity == "high" and reason.endswith("counted models call; under which condition was not counted.")
    assert severity_of("failure", [["aten.softmax.int"]])[0] == "medium"
    assert severity_of("failure", [["aten.special_zeta.default", "aten.softmax.int"]])[0] == "low", "it needs both"
    assert severity_of("values", [])[1].endswith("in no operator that could be named.")


def test_of_one_severity_the_worse_damage_comes_first_then_the_most_frequent() -> None:
    found = [
        group(summary(ORT, "failed", "softmax", signature="no"), 99),
        group(summary(ORT, "reduced_precision", "softmax"), 1),
        group(summary(ORT, "reduced_precision", "gelu"), 2),
    ]
    causes = causes_of(found)
    assert {cause.severity for cause in causes} == {"medium"}
    assert [cause.rows for cause in causes] == [2, 1, 99]
