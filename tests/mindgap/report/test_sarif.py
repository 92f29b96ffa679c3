"""SARIF holds a result for each finding, at the user's line, in the form that the standard requires."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any, Final

import jsonschema

from findings.causes.made_summaries import group, summary
from mindgap.findings.causes import KnownIssue, causes_of
from mindgap.graph.compare.culprit import culprit_of
from mindgap.report import sarif_of_causes, sarif_of_report
from mindgap.workflows.diff import Report
from report.report_sample import sample, with_three_faults


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_TEXT: Final = _object(("text",), text={"type": "string", "minLength": 1})
#: What SARIF 2.1.0 (OASIS, errata 01) requires of the parts that are written.
REQUIRED: Final = _object(
    ("version", "runs"),
    version={"const": "2.1.0"},
    runs=_list(
        _object(
            ("tool", "results"),
            tool=_object(
                ("driver",),
                driver=_object(
                    ("name",),
                    name={"type": "string"},
                    rules=_list(_object(("id",), id={"type": "string"}, shortDescription=_TEXT)),
                ),
            ),
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            results=_list(
                _object(
                    ("message",),
                    message=_TEXT,
                    ruleId={"type": "string"},
                    level={"enum": ["none", "note", "warning", "error"]},
                    baselineState={"enum": ["new", "unchanged", "updated", "absent"]},
                    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
                    suppressions=_list(_object(("kind",), kind={"enum": ["inSource", "external"]})),
                    locations=_list(
                        _object(
                            (),
                            logicalLocations=_list(_object((), fullyQualifiedName={"type": "string"})),
                            physicalLocation=_object(
                                ("artifactLocation",),
                                artifactLocation=_object(("uri",), uri={"type": "string", "pattern": r"^[^\s\\]+$"}),
                                region=_object(("startLine",), startLine={"type": "integer", "minimum": 1}),
                            ),
                        )
                    ),
                )
            ),
        )
    ),
)


def results_of(text: str) -> list[dict[str, Any]]:
    data = json.loads(text)
    jsonschema.validate(data, REQUIRED)
    (run,) = data["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules)) and {result["ruleId"] for result in run["results"]} == set(rules)
    return run["results"]


def place(result: dict[str, Any]) -> tuple[str, int] | None:
    physical = result["locations"][0].get("physicalLocation")
    return None if physical is None else (physical["artifactLocation"]["uri"], physical["region"]["startLine"])


def test_every_finding_of_a_report_is_a_result() -> None:
    results = results_of(sarif_of_report(sample()))
    assert sorted(result["ruleId"] for result in results) == sorted(row.word for row in sample().findings)
    reduced = next(result for result in results if result["ruleId"] == "reduced_precision")
    assert place(reduced) == ("resnet.py", 12)
    assert "resnet18 on openvino/cpu@precision=default" in reduced["message"]["text"]
    assert all(len(result["partialFingerprints"]["mindgapCause/v1"]) == 10 for result in results)
    assert results_of(sarif_of_report(replace(sample(), rows=()))) == []


def test_every_fault_of_a_row_is_a_result() -> None:
    results = results_of(sarif_of_report(with_three_faults()))
    assert len(results) == len(sample().findings) + 2
    row = {each["properties"]["operators"][0]: each for each in results if "resnet18 on" in each["message"]["text"]}
    assert {op: each["ruleId"] for op, each in row.items()} == {
        "aten.conv2d.default": "reduced_precision",
        "aten.exp.default": "discrepant",
        "aten.tanh.default": "exceptional",
    }
    assert place(row["aten.tanh.default"]) == ("resnet.py", 40)
    assert row["aten.exp.default"]["baselineState"] == "unchanged" and "baselineState" not in row["aten.tanh.default"]
    assert "culprit aten.exp.default (node 5)" in row["aten.exp.default"]["message"]["text"]


def located(source: str, label: str) -> tuple[str, int] | None:
    report = sample()
    row = next(row for row in report.rows if row.word == "reduced_precision")
    row = replace(row, culprit=culprit_of(3, "aten.conv2d.default", label))
    models = tuple(replace(model, source=shlex.quote(source)) for model in report.models)
    (result,) = results_of(sarif_of_report(Report("cpu/eager", (), models, (row,))))
    return place(result)


def test_a_finding_is_at_the_line_of_the_users_file() -> None:
    assert located("examples/my model.py:make?size=3", "layer1.0 (my model.py:42)") is not None
    assert located("examples/my_model.py:make?size=3", "layer1.0 (my_model.py:42)") == ("examples/my_model.py", 42)
    assert located("./my_model.py:make", "my_model.py:7") == ("my_model.py", 7)
    assert located("/home/a b/my_model.py:make", "my_model.py:7") == ("file:///home/a%20b/my_model.py", 7)
    assert located("my_model.py:make", "layers.py:9") == ("layers.py", 9)
    assert located("my_model.py:make", "layer1.0") == ("my_model.py", 1)
    assert located("timm:resnet18", "") is None


def test_known_findings_are_suppressed_and_new_ones_are_not() -> None:
    rows = tuple(replace(row, known=row.word == "failed") for row in sample().rows)
    states = {
        result["ruleId"]: (result.get("baselineState"), len(result.get("suppressions", ())))
        for result in results_of(sarif_of_report(replace(sample(), rows=rows)))
    }
    assert states["failed"] == ("unchanged", 1) and states["structural"] == (None, 0)


def test_a_reduced_cause_is_one_result_at_its_script() -> None:
    found = [
        summary("onnxruntime/cpu", "discrepant", "softmax", script="a.py"),
        summary("cpu/jit", "failed", "fill", signature="no", script="b.py"),
    ]
    first, second = causes_of(group(each, 2) for each in found)
    first = replace(first, state="back")
    second = replace(second, state="known", upstream=KnownIssue("https://example.org/7"))
    worst, least = results_of(sarif_of_causes((first, second), "0.1.0"))
    assert (place(worst), worst["level"], worst["baselineState"]) == (("a.py", 1), "error", "new")
    assert (place(least), least["level"], least["baselineState"]) == (("b.py", 1), "warning", "unchanged")
    assert worst["partialFingerprints"] == {"mindgapCause/v1": first.id}
    assert "https://example.org/7" in least["suppressions"][0]["justification"]
    assert "suppressions" not in worst
