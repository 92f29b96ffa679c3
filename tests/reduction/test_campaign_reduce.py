"""Findings of a campaign reduced to causes, with an index of them."""

from __future__ import annotations

from pathlib import Path

from mindgap.campaign.results.findings import FindingGroup
from mindgap.campaign.results.reduce import GroupReduction, index_text
from mindgap.reduction.files import Summary


def reduced(case: str, count: int, op: str, *, verified: bool = True, word: str = "discrepant") -> GroupReduction:
    group = FindingGroup("r", "onnxruntime/cpu", word, op, count, case, "platform", 1.0, "", (case,))
    title, platform = f"onnxruntime/cpu: {op} of float32", "onnxruntime/cpu"
    summary = Summary(title, platform, word, "platform", (op,), ("float32",), "", 10, 5, 1.0, True, True, verified,
                      f"{case}.py")  # fmt: skip
    return GroupReduction(group, summary)


def test_groups_with_one_cause_are_one_line_and_the_worst_comes_first() -> None:
    lost = FindingGroup("r", "cpu/jit", "failed", "", 2, "v9", "platform", None, "", ())
    text = index_text([
        reduced("v1", 3, "aten.sin.default", verified=False), reduced("v2", 4, "aten.sin.default"),
        reduced("v3", 1, "aten.cos.default", word="failed"), GroupReduction(lost, None, "gone | now"),
    ])  # fmt: skip
    lines = text.splitlines()
    assert lines[0] == "# 2 causes of 10 findings"
    rows = [line for line in lines if line.startswith("| ") and "float32" in line]
    assert len(rows) == 2 and "aten.cos" in rows[0]
    assert rows[1].startswith("| 7 |") and "v2.py" in rows[1] and rows[1].endswith("| yes |"), (
        "the verified script is shown"
    )
    assert "## Not reduced: 1 groups" in lines and "gone \\| now" in text


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    import json
    from dataclasses import asdict

    from mindgap.reduction.files import read_summary

    summary = reduced("v1", 3, "aten.sin.default").summary
    assert summary is not None
    file = tmp_path / "one.json"
    file.write_text(json.dumps(asdict(summary)))
    assert read_summary(file) == summary
