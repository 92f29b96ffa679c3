"""Findings of a campaign reduced to causes, with an index of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.findings.reduction.files import Summary
from mindgap.graph import MindgapError
from mindgap.platforms.name import parse
from mindgap_campaign.campaign.results.findings import FindingGroup
from mindgap_campaign.campaign.results.reduce import (
    GroupReduction,
    causes_of_groups,
    complete_platforms,
    groups_with,
    index_text,
    worst_groups,
)


def reduced(case: str, count: int, op: str, *, verified: bool = True, word: str = "discrepant") -> GroupReduction:
    group = FindingGroup("r", parse("onnxruntime/cpu"), word, op, count, case, "platform", 1.0, "", (case,))
    title, platform = f"onnxruntime/cpu: {op} of float32", parse("onnxruntime/cpu")
    summary = Summary(title, platform, word, "platform", (op,), ("float32",), "", 10, 5, 1.0, True, True, verified,
                      f"{case}.py")  # fmt: skip
    return GroupReduction(group, summary)


def test_groups_with_one_cause_are_one_line_and_the_worst_comes_first() -> None:
    lost = FindingGroup("r", parse("cpu/jit"), "failed", "", 2, "v9", "platform", None, "", ())
    groups = [
        reduced("v1", 3, "aten.sin.default", verified=False), reduced("v2", 4, "aten.sin.default"),
        reduced("v3", 1, "aten.cos.default", word="failed"), GroupReduction(lost, None, "gone | now"),
    ]  # fmt: skip
    text = index_text(causes_of_groups(groups), groups)
    assert complete_platforms([parse("onnxruntime/cpu"), parse("cpu/jit")], groups) == {"onnxruntime/cpu"}, (
        "a group was lost"
    )
    lines = text.splitlines()
    assert lines[0] == "# 2 causes of 10 findings"
    wrong, failing = [line for line in lines if line.startswith("| ") and "float32" in line]
    assert "aten.cos" in failing, "a wrong result without a message is worse than a message"
    assert wrong.startswith("| 7 |") and "v2.py" in wrong and wrong.endswith("| yes |"), "the verified script is shown"
    assert "## Not reduced: 1 groups" in lines and "gone \\| now" in text


def test_the_worst_groups_come_first_and_the_frequent_ones_of_them() -> None:
    groups = [
        reduced("v1", 9, "aten.sin.default", word="failed").group, reduced("v2", 1, "aten.cos.default").group,
        reduced("v3", 4, "aten.exp.default").group,
    ]  # fmt: skip
    assert [group.case for group in worst_groups(groups, 2)] == ["v3", "v2"]
    assert [group.case for group in worst_groups(groups, 9)] == ["v3", "v2", "v1"]
    assert worst_groups(groups, None) == groups


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    import json
    from dataclasses import asdict, replace

    from mindgap.findings.reduction.files import read_summary

    made = reduced("v1", 3, "aten.sin.default").summary
    assert made is not None
    summary = replace(made, stage="exporter", stage_evidence=("one run", "another run"))
    file = tmp_path / "one.json"
    data = asdict(summary)
    file.write_text(json.dumps(data))
    assert read_summary(file) == summary
    older = {key: value for key, value in data.items() if not key.startswith("stage")}
    file.write_text(json.dumps(older))
    assert read_summary(file) == made and made.stage == "unknown", "a file of an older version is read too"


def test_only_the_groups_of_the_cases_that_were_asked_for_and_no_other_case_of_them() -> None:
    many = replace(reduced("v1", 3, "aten.sin.default").group, cases=("v1", "v5", "v7"))
    other = reduced("v2", 1, "aten.cos.default").group
    (kept,) = groups_with([many, other], ["v7", "v5"])
    assert (kept.case, kept.cases, kept.count) == ("v5", ("v5", "v7"), 3)
    assert groups_with([many, other], []) == [many, other]
    with pytest.raises(MindgapError, match="--case v9: no such finding"):
        groups_with([many, other], ["v1", "v9"])
