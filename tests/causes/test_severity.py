"""Causes are ranked by what a user would lose."""

from __future__ import annotations

from dataclasses import replace

from causes.made_summaries import group, summary
from mindgap.causes import causes_of
from mindgap.causes.severity import models_using, severity_of

ORT = "onnxruntime/cpu"


def test_silent_errors_in_common_functions_come_first_and_internal_results_last() -> None:
    found = [
        summary(ORT, "discrepant", "softmax"),
        summary(ORT, "discrepant", "special_erfcx"),
        summary(ORT, "exceptional", "special_zeta", special=True),
        summary(ORT, "reduced_precision", "special_zeta"),
        summary(ORT, "failed", "special_zeta", signature="no"),
        replace(summary(ORT, "discrepant", "native_layer_norm"), internal=True),
    ]
    causes = causes_of(group(each, rows=number) for number, each in enumerate(found, 1))
    assert [cause.severity for cause in causes] == ["critical", "high", "medium", "medium", "low", "low"]
    order = [cause.operators[0].split(".")[1] for cause in causes]
    assert order[:2] == ["softmax", "special_erfcx"] and causes[2].damage == "special values"
    assert "no public function" in next(c for c in causes if "layer_norm" in c.title).severity_reason


def test_the_reason_is_one_sentence_with_the_function_and_how_many_models_call_it() -> None:
    severity, reason = severity_of("values", [["aten._softmax.default"], ["aten.special_zeta.default"]])
    assert severity == "critical" and reason.startswith("It gives wrong values without a message, in softmax, which ")
    assert reason.endswith(" counted models call.") and reason.count(".") == 1
    assert severity_of("values", [["aten.special_zeta.default"]])[0] == "high"
    assert severity_of("values", [["aten.special_zeta.default", "aten.softmax.int"]])[0] == "high", "it needs both"
    assert severity_of("failure", [["aten.softmax.int"]])[0] == "medium"
    assert severity_of("values", [])[1].endswith("in no operator that could be named.")


def test_a_gradient_is_as_common_as_its_function() -> None:
    assert models_using("aten.native_layer_norm_backward.default") == models_using("aten.layer_norm.default") > 1000
    assert models_using("aten.no_such_thing.default") == 0


def test_of_one_severity_the_worse_damage_comes_first_then_the_most_frequent() -> None:
    found = [
        group(summary(ORT, "failed", "softmax", signature="no"), 99),
        group(summary(ORT, "reduced_precision", "softmax"), 1),
        group(summary(ORT, "reduced_precision", "gelu"), 2),
    ]
    causes = causes_of(found)
    assert {cause.severity for cause in causes} == {"medium"}
    assert [cause.rows for cause in causes] == [2, 1, 99]


def test_wrong_values_that_are_nearly_right_rank_like_lost_precision():
    severity, reason = severity_of("values", [["aten.tanh.default"]], slight=True)
    assert severity == "medium" and "less than a thousandth" in reason
    assert severity_of("values", [["aten.tanh.default"]])[0] == "critical"
    assert severity_of("shape", [["aten.tanh.default"]], slight=True) == severity_of("shape", [["aten.tanh.default"]])
