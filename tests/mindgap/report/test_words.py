"""One row in words: NaN is counted where distances skip it, a policy has no node."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import get_args

from mindgap.cli.tables import print_report
from mindgap.graph.compare.culprit import DtypePolicy, Example, culprit_of
from mindgap.graph.compare.verdict import CALM, Verdict
from mindgap.judge.trace.side_values import reason_of
from mindgap.platforms.name import parse
from mindgap.report import html_page
from mindgap.report.finding_blocks import blocks
from mindgap.report.page import plain_culprit
from mindgap.report.words import MEANINGS, classes, explain, metric
from mindgap.results.rows import SEVERITY
from mindgap.run.outcome import Outcome
from mindgap.workflows.diff import Row
from report.report_sample import sample

NANS = {"n": 40, "max_abs": 0.0, "max_rel": 0.0, "relative_error": 0.0, "max_ulp": 0, "nan_mismatch": 2, "cosine": 1.0}
EXAMPLE = "log(-1.0) gave -inf; right is nan (another class on equal operands: infinity in 2 of 40 elements)"


def exceptional(**more: object) -> Row:
    return Row("m", "p", "ok", "exceptional", {**NANS, **more}, culprit_of(3, "aten.log.default"), detail=EXAMPLE)


def test_every_verdict_has_its_words() -> None:
    assert set(get_args(Verdict)) == set(SEVERITY) and set(SEVERITY) < set(MEANINGS)
    assert "internal" in CALM and not Row("m", "p", "ok", "internal").finding


def test_nan_is_no_error_of_zero() -> None:
    row = exceptional()
    assert metric(row, "max_abs") == "NaN in 2 of 40 elements"
    assert [metric(row, name) for name in ("relative_error", "max_rel", "max_ulp")] == ["–"] * 3
    both = exceptional(inf_mismatch=1, max_abs=0.25)
    assert metric(both, "max_abs") == "0.25; NaN in 2 of 40 elements, infinity in 1 of 40 elements"
    assert classes({"max_abs": 0.0, "nan_mismatch": 0, "n": 40}) == ""
    assert "max_abs NaN in 2 of 40 elements" in explain(row) and "log(-1.0) gave -inf" in explain(row)


def test_a_message_is_explained_by_the_line_that_names_the_reason() -> None:
    place = "Check 'false' failed at src/frontends/common_translators/src/unconverted_ops_report.cpp:151:"
    reported = f"{place}\nFrontEnd API failed with OpConversionFailure:\n"
    message = (
        reported + "Model wasn't fully converted.\nSummary:\n-- No conversion rule found for operations: aten.i0\n"
    )
    row = Row("m", "p", "unsupported", None, message=message)
    assert "No conversion rule found for operations: aten.i0" in explain(row) and "failed at" not in explain(row)
    reason = reason_of(Outcome(parse("cpu/eager"), "", "unsupported", message=message))
    assert reason == "unsupported: -- No conversion rule found for operations: aten.i0"


def test_the_example_is_in_the_table_and_on_the_page() -> None:
    report = sample()
    position = next(i for i, row in enumerate(report.rows) if row.verdict == "discrepant")
    rows = list(report.rows)
    rows[position] = replace(rows[position], detail="127 + 1 gave 127; int8 wraps to -128")
    several = replace(report, rows=tuple(rows))
    one = replace(several, models=several.models[2:], rows=tuple(r for r in rows if r.model == "sorter"))
    for each in (several, one):
        out = io.StringIO()
        print_report(each, out)
        assert "  evidence 127 + 1 gave 127; int8 wraps to -128\n" in out.getvalue()
    assert "127 + 1 gave 127; int8 wraps to -128" in html_page(several)


def test_the_evidence_behind_an_example_has_no_brackets_with_and_without_a_set_of_arguments() -> None:
    example = Example("127 + 1", "127", "-128", True)
    for label in ("", "given.npz (zeros.npz: rounding): "):
        detail = f"{label}{example.sentence} (wrong in 3 of 36 elements, on p: aten.add.Tensor)"
        row = Row("m", "p", "ok", "discrepant", {}, culprit_of(3, "aten.add.Tensor"), detail=detail, example=example)
        (block,) = blocks(replace(sample(), rows=(row,)))
        assert dict(block.fields)["evidence"] == f"{label}wrong in 3 of 36 elements"


def test_a_policy_is_named_without_a_node() -> None:
    policy = DtypePolicy("float64", "float32")
    row = Row("m", "p", "ok", "reduced_precision", {}, policy, "platform")
    assert "culprit dtype policy: float64 computed in float32;" in explain(row)
    assert plain_culprit(policy) == "float64 in float32"


def test_what_a_delegate_gave_back_is_under_the_table() -> None:
    out = io.StringIO()
    print_report(sample(), out)
    assert "\ndelegation: onnxruntime/cpu: XNNPACK ran 20 of 22 operators in 3 parts;" in out.getvalue()
