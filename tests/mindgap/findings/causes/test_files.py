"""causes.json is read as it was written; a damaged file is one clear line."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from findings.causes.made_summaries import group, summary
from mindgap.findings.causes import Cause, KnownIssue, causes_of, causes_text, read_causes
from mindgap.graph import MindgapError


def some() -> tuple[Cause, ...]:
    found = causes_of([
        group(summary("onnxruntime/cpu", "discrepant", "sin", stage="kernel"), 3, "v1", "v2"),
        group(summary("cpu/jit", "failed", "fill", signature="RuntimeError: no"), 1, "v3"),
    ])  # fmt: skip
    upstream = KnownIssue("https://example.org/1", "seen", date(2027, 1, 2))
    first = replace(
        found[0], upstream=upstream, state="back", condition="0-d input", right_for="1-d", mechanism="Sin",
        native="n.py", error="0.1 of the right value", uses="0 of 9", versions=("1.0", "1.2"),
        merged=("Both run as sin.",),
    )  # fmt: skip
    return first, found[1]


def test_causes_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "causes.json"
    file.write_text(causes_text(some()))
    assert read_causes(file) == some()
    assert len(some()) == 2 and some()[0].id != some()[1].id


def test_a_file_of_an_older_version_is_read_too(tmp_path: Path) -> None:
    data = json.loads(causes_text(some()))
    newer = ("condition", "right_for", "mechanism", "native", "error", "uses", "versions", "merged")
    for cause in data["causes"]:
        for name in newer:
            cause.pop(name, None)
        for finding in cause["findings"]:
            for name in ("mechanism", "condition", "right_for"):
                finding.pop(name, None)
    file = tmp_path / "causes.json"
    file.write_text(json.dumps(data))
    first, second = read_causes(file)
    assert [(getattr(first, name), getattr(second, name)) for name in newer[:6]] == [("", "")] * 6
    assert first.versions == first.merged == () and first.upstream == some()[0].upstream


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read"),
        ("[]", "holds no causes of version 1"),
        ('{"mindgap_causes": 2, "causes": []}', "holds no causes of version 1"),
        ('{"mindgap_causes": 1}', "is damaged at causes"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "causes.json"
    file.write_text(content)
    with pytest.raises(MindgapError, match=told) as raised:
        read_causes(file)
    assert "\n" not in str(raised.value)


def test_a_wrong_field_is_named_with_its_place(tmp_path: Path) -> None:
    data = json.loads(causes_text(some()))
    data["causes"][1]["severity"] = "awful"
    file = tmp_path / "causes.json"
    file.write_text(json.dumps(data))
    with pytest.raises(MindgapError, match=r"damaged at causes\.1\.severity"):
        read_causes(file)
    with pytest.raises(MindgapError, match=r"no .*missing\.json"):
        read_causes(tmp_path / "missing.json")
