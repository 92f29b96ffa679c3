"""The study of a campaign that really ran."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from campaign.small_source import Small, plan_text
from mindgap.results.store import Store
from mindgap_campaign.campaign.plan import parse_plan
from mindgap_campaign.campaign.session import RunOptions, begin
from mindgap_studies import records
from mindgap_studies.gap import gap
from mindgap_studies.gap.vocabulary import WORDS
from mindgap_studies.report.gap_page import gap_page
from mindgap_surveys.report.study_page import study_page

TOYS = Path(__file__).parents[2] / "mindgap_campaign" / "campaign"


@pytest.mark.nightly
def test_a_campaign_reconciles_with_where_it_says_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TOYS), prepend=os.pathsep)
    monkeypatch.syspath_prepend(TOYS)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    platforms = {"toys:EXACT@number=2": "variants = 6", "toys:WRONG": "", "toys:PICKY": "", "toys:FAILS": ""}
    text = plan_text(30, platforms, top='reference = "toys:EXACT"')
    plan = parse_plan(text, "campaign.toml")
    result = begin(plan, text, tmp_path / "out", Small(), options=RunOptions(jobs=1))

    study = gap(Store(tmp_path / "out", create=False))
    assert not study.wrong and study.kind == "campaign" and study.seconds
    whole = records(study.table("totals"))[-1]
    assert {word: whole[word] for word in WORDS if whole[word]} == dict(result.totals.words)
    assert (whole["rows"], whole["findings"]) == (result.totals.rows, result.totals.findings)
    failures = {row["platform"]: row for row in records(study.table("failures"))}
    assert (failures["toys:FAILS"]["other"], failures["toys:PICKY"]["unsupported_operator"]) == (30, 10)
    assert failures["toys:EXACT@number=2"]["outcomes"] == 6
    (culprit,) = {row["culprit"] for row in records(study.table("findings")) if row["platform"] == "toys:WRONG"}
    assert culprit == "aten.exp.default"
    kinds = {(row["kind"], row["size"]): row["models"] for row in records(study.table("makeup"))}
    assert kinds["variant", "1–10 nodes"] == kinds["all", "all"] == 30
    consistent = {(row["base"], row["platform"]) for row in records(study.table("consistency"))}
    assert ("both", "toys:EXACT@number=2") in consistent and ("everywhere", "toys:EXACT@number=2") not in consistent
    assert "all agree" in study_page(gap_page(study))
