"""Totals reconcile, classes partition, JSON comes back equal."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mindgap.graph import MindgapError
from mindgap.graph.compare.culprit import culprit_of
from mindgap.graph.compare.verdict import CALM, FINDINGS
from mindgap.platforms.name import recorded
from mindgap.results.report_json import decode_report
from mindgap.workflows.diff import Model, Refused, Report, Row
from report.report_sample import sample

MODELS = ("m0", "m1", "m2")
PLATFORMS = ("p/a", "p/b", "p/c@x=1")

real = st.none() | st.floats(allow_nan=False)
figures = st.fixed_dictionaries(
    {},
    optional={"max_abs": real | st.integers(), "max_rel": real, "max_ulp": st.none() | st.integers(), "cosine": real},
)
#: As stores and reports of every version hold them.
CULPRITS = [
    {"node": 3, "op": "aten.add.Tensor", "label": "net.py:3"},
    {"node": 9, "op": "aten.clamp.default+aten.log.default", "label": ""},
    {"node": -1, "op": "dtype policy: float64 computed in float32", "label": ""},
    {"node": 4, "op": "graph outputs: a value returned twice", "label": "net.py:9"},
]
culprits = st.sampled_from([None, *(culprit_of(**each) for each in CULPRITS)])


@st.composite
def rows(draw: st.DrawFn, model: str, platform: str) -> Row:
    verdict = draw(st.sampled_from([None, *sorted(CALM), *FINDINGS]))
    status = "unsupported" if verdict is None and draw(st.booleans()) else "ok"
    digests = tuple(draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=2))) if status == "ok" else ()
    return Row(
        model,
        platform,
        status,
        verdict,
        metrics=draw(figures),
        culprit=draw(culprits),
        digests=digests,
        known=verdict is not None and verdict not in CALM and draw(st.booleans()),
        broken=draw(st.sampled_from(["", "Traceback"])) if verdict is None else "",
        unjudged=verdict is None and status == "ok" and draw(st.booleans()),
    )


@st.composite
def reports(draw: st.DrawFn) -> Report:
    made = tuple(draw(rows(model, platform)) for model in MODELS for platform in PLATFORMS)
    models = tuple(Model(name, name, 1, 1, (), (), "ok", reference_digests=("x",)) for name in MODELS)
    refused = tuple(draw(st.lists(st.builds(Refused, st.text(max_size=5), st.text(max_size=5)), max_size=2)))
    return Report("p/ref", (), models, made, refused, "now", "0", 1.0)


@given(reports())
def test_every_total_is_a_partition_of_the_rows(report: Report) -> None:
    totals = report.totals
    assert totals.rows == len(MODELS) * len(PLATFORMS) == sum(totals.words.values()) == sum(totals.statuses.values())
    assert totals.findings == totals.known + totals.new == sum(row.finding for row in report.rows)
    assert totals.findings == sum(totals.words.get(word, 0) for word in FINDINGS)
    assert list(report.new_findings) == [row for row in report.findings if not row.known]


@given(reports())
def test_findings_come_worst_first(report: Report) -> None:
    ranks = [FINDINGS.index(row.verdict) for row in report.findings if row.verdict is not None]
    assert ranks == sorted(ranks)


@given(reports())
def test_classes_partition_what_ran_with_the_reference_first(report: Report) -> None:
    for model in MODELS:
        classes = report.classes(model)
        members = [platform for group in classes for platform in group]
        ran = [row.platform for row in report.rows if row.model == model and row.digests]
        assert sorted(members) == sorted(["p/ref", *ran])
        assert "p/ref" in classes[0]


@pytest.mark.parametrize("platform", ["onnxruntime/cpu", "cpu/eager@threads=1,isa=avx2", "pkg.module:BACKEND@b=2,a=1"])
@pytest.mark.parametrize("culprit", CULPRITS)
def test_names_and_culprits_of_a_written_report_stay_as_they_are(platform: str, culprit: dict[str, Any]) -> None:
    row = Row("m0", recorded(platform), "ok", "discrepant", blame="platform")
    text = _report(row).to_json()
    data = json.loads(text)
    fault = {**data["rows"][0]["faults"][0], "culprit": culprit}
    data["rows"][0] |= {"culprit": culprit, "timings": {"judge": 1.0}, "faults": [fault]}
    report = decode_report(json.dumps(data))
    assert report.rows[0].platform.options == recorded(platform).options
    assert report.rows[0].culprit == report.rows[0].faults[0].culprit == culprit_of(**culprit)
    assert json.loads(report.to_json()) == data
    assert [*json.loads(report.to_json())["rows"][0]] == [*data["rows"][0]], "the order of the fields"


@given(reports())
def test_json_comes_back_equal_and_is_strict(report: Report) -> None:
    text = report.to_json()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert decode_report(text) == report


def test_a_report_of_an_earlier_version_has_its_verdicts_among_the_metrics() -> None:
    model = Model("m", "", 1, 1, (), (), "ok")
    row = Row("m", "p/a", "ok", "discrepant", {"max_abs": 1.0}, verdicts=("rounding", "discrepant"))
    report = Report("p/ref", (), (model,), (row,))
    old = json.loads(report.to_json())
    assert "verdicts" not in old["rows"][0]["metrics"]
    old["rows"][0]["metrics"]["verdicts"] = old["rows"][0].pop("verdicts")
    assert decode_report(json.dumps(old)) == report


def test_what_is_not_finite_survives_json() -> None:
    row = Row("m", "p/a", "ok", "exceptional", {"max_abs": math.inf, "mad": math.nan, "per": {"x": -math.inf}})
    model = Model("m", "", 1, 1, (), (), "ok")
    back = decode_report(Report("p/ref", (), (model,), (row,)).to_json()).rows[0].metrics
    assert back["max_abs"] == math.inf and math.isnan(back["mad"]) and back["per"]["x"] == -math.inf


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("[]", "is not a report"),
        ('{"schema": 99, "rows": []}', "schema 99"),
        ('{"schema": 1, "rows": [{"model": 3}], "reference": "r", "platforms": [], "models": []}', "rows.0"),
    ],
)
def test_a_damaged_report_is_refused_by_place(text: str, says: str) -> None:
    with pytest.raises(MindgapError, match="REPORT") as refused:
        decode_report(text, "REPORT")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def _report(*made: Row, models: int = 1) -> Report:
    return Report("p/ref", (), tuple(Model(f"m{n}", "", 1, 1, (), (), "ok") for n in range(models)), made)


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (_report(models=0), "no model was captured"),
        (_report(), "no platform was asked for"),
        (_report(Row("m0", "p/a", "unsupported", None), Row("m0", "p/b", "unsupported", None)), "every row is unsup"),
        (_report(Row("m0", "p/a", "unsupported", None), Row("m0", "p/b", "crash", None)), "ran nothing"),
    ],
)
def test_nothing_is_said_with_its_reason(report: Report, says: str) -> None:
    assert report.nothing is not None and says in report.nothing


@pytest.mark.parametrize("row", [Row("m0", "p/a", "ok", "identical"), Row("m0", "p/a", "crash", "failed")])
def test_a_report_that_compared_something_is_not_nothing(row: Row) -> None:
    assert _report(row, Row("m0", "p/b", "unsupported", None)).nothing is None


def test_a_report_whose_timings_are_a_number_is_damaged() -> None:
    document = json.loads(sample().to_json())
    document["rows"][0]["timings"] = 1.5
    with pytest.raises(MindgapError, match=r"is damaged at rows\.0\.timings"):
        decode_report(json.dumps(document))
