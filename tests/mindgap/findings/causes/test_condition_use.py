"""Conditions in a reduction's words are counted over captured models as far as calls tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from findings.causes.made_summaries import group, summary
from mindgap.findings.causes import ConditionUse, causes_of
from mindgap.findings.causes.condition_use import use_of_condition
from mindgap.findings.causes.operator_calls import models_using


def use(op: str, condition: str) -> ConditionUse | None:
    return use_of_condition(replace(summary("onnxruntime/cpu", "discrepant", op), condition=condition))


@pytest.mark.parametrize(
    ("op", "condition", "where"),
    [
        ("max", "0-d input", "max(len(s) for s in shapes) == 0"),
        ("conv2d", "input without a batch dimension", "len(shapes[0]) == 3"),
        ("clamp", "with `max`", "('max' in tensors or args['max'] is not None)"),
        ("avg_pool2d", "`ceil_mode=True`, an empty input", "args['ceil_mode'] == True and any(0 in s for s in shapes)"),
        ("add", "dtype float16, bfloat16 or float64", "any(d in ('float16', 'bfloat16', 'float64') for d in dtypes)"),
        ("aten.add.Tensor", "`alpha` other than 1", "args['alpha'] != 1"),
        ("sum", "input of 1, 2 or 4 dimensions", "max(len(s) for s in shapes) in (1, 2, 4,)"),
        ("sum", "`dim=[0, 1]`, dtype bool only", "args['dim'] == [0, 1] and 'bool' in dtypes"),
        ("softmax", "negative `dim`", "args['dim'] < 0"),
        ("cat", "dimension 1 of operand 2 of size 0", "shapes[2][1] == 0"),
    ],
)  # fmt: skip
def test_a_fact_becomes_a_condition_on_a_call(op: str, condition: str, where: str) -> None:
    found = use(op, condition)
    assert found is not None and (found.where, found.values_only) == (where, False)
    assert found.text.partition(" of 2,252")[0].isdigit() and found.condition == condition


def test_what_calls_do_not_tell_makes_the_count_an_upper_bound() -> None:
    found = use("conv2d", "an empty input, particular values")
    assert found is not None and found.values_only and found.where == "any(0 in s for s in shapes)"
    found = use("conv2d", "channels_last input")
    assert found is not None and found.values_only and not found.where
    found = use("conv2d", "`no_such=1`")
    assert found is not None and found.values_only and not found.where
    two = use_of_condition(replace(summary("cpu/jit", "discrepant", "relu", "erfinv"), condition="0-d input"))
    assert two is not None and two.functions == ("erfinv",) and two.values_only, (
        "which of the two meets it is not known"
    )


def test_any_input_counts_every_call_and_no_condition_counts_none() -> None:
    found = use("softmax", "any input tried")
    assert found is not None and not found.where and not found.values_only
    assert found.text.startswith(f"{models_using('softmax')} of 2,252")
    assert use("softmax", "") is None


def test_a_cause_takes_its_severity_from_the_condition_of_its_finding() -> None:
    found = replace(summary("onnxruntime/cpu", "discrepant", "avg_pool2d"), condition="with `divisor_override`")
    (cause,) = causes_of([group(replace(found, right_for="`divisor_override=None`"))])
    assert (cause.severity, cause.condition) == ("high", "with `divisor_override`")
    assert cause.right_for == "`divisor_override=None`" and cause.uses.startswith("0 of 2,252")
    (common,) = causes_of([group(replace(found, condition="any input tried"))])
    assert (common.severity, common.condition) == ("critical", "any input")
