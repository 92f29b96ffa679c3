"""A campaign asks its platforms first what they refuse of its own calls, once, within a budget, and says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_source import GRAPHS, Small, plan_text

from mindgap.graph import Graph, Input, Literal, Node, Ref, TensorSpec, Uniform
from mindgap.results.store import Store
from mindgap.results.support_key import Key
from mindgap_campaign.campaign.cases.case import Shard
from mindgap_campaign.campaign.plan import parse_plan
from mindgap_campaign.campaign.session import RunOptions, resume_campaign
from mindgap_campaign.campaign.state.directory import SupportOptions, create_directory, open_directory
from mindgap_surveys.support.graph_probes import case_probes

Campaign = Callable[..., Any]
NEG, EXP, ADD, RELU = (
    Key(f"aten.{name}", "float32", "contiguous")
    for name in ("neg.default", "exp.default", "add.Tensor", "relu.default")
)


def test_probes_are_of_what_the_cases_hold_and_is_not_known() -> None:
    seen: list[int] = []
    found = case_probes(GRAPHS, {EXP}, on_graph=seen.append)
    assert found.keys == {NEG, EXP, ADD, RELU} and seen == [1, 2, 3]
    assert {probe.key for probe in found.probes} == {NEG, ADD, RELU}
    assert all(len(probe.graph.nodes) == 1 for probe in found.probes)
    # Of one key no more than three, and none twice.
    of_relu = [probe.data for probe in case_probes(GRAPHS * 4, set()).probes if probe.key == RELU]
    assert len(of_relu) == len(set(of_relu)) <= 3
    large = TensorSpec.contiguous("float32", (30_000,))
    values = np.random.default_rng(0).random(30_000, np.float32)
    start = Input(large, Literal(values.tobytes()))
    wide = Graph((start,), (Node("aten.neg.default", (Ref(0),), (), (large,)),), (1,))
    found = case_probes([wide], set())
    assert found.keys == {NEG} and found.probes == [], "120 KB of operands are too large to be asked with"
    small = replace(wide, inputs=(Input(large, Uniform(1)),))
    assert len(case_probes([wide, small], set()).probes) == 1, "by their recipe they are not"


@pytest.mark.nightly
def test_refusals_are_asked_for_once_and_not_run(campaign: Campaign, tmp_path: Path) -> None:
    said: list[str] = []
    options = RunOptions(jobs=2, notify=said.append, support=tmp_path / "support")
    result = campaign(30, "toys:PICKY", "toys:EXACT@number=2", "toys:WRONG", options=options)
    rows = {each.platform: dict(each.words) for each in result.platforms}
    assert rows["toys:PICKY"] == {"identical": 20} and result.platforms[0].refused == 10
    assert result.lacking == [("toys:PICKY", "aten.neg.default: not in this toy", 10)]
    assert said[0].startswith("asking toys:PICKY, toys:WRONG which operators they run, for at most 5 min")
    assert said[1].startswith("toys:PICKY: of 4 calls in the cases") and "it refuses 1" in said[1]
    assert "0 were known; 4 were asked" in said[1] and "it refuses 0" in said[2] and len(said) == 3
    known = Store(tmp_path / "support").rows("SELECT platform, op, answer FROM support ORDER BY ALL")
    assert len(known) == 8 and [row["op"] for row in known if row["answer"] == "refuses"] == ["aten.neg.default"]

    said.clear()
    again = campaign(30, "toys:PICKY", out="again", options=options)
    assert "4 were known; 0 were asked" in said[1] and again.platforms[0].refused == 10


@pytest.mark.nightly
def test_asking_may_be_forbidden_and_what_is_known_is_used_all_the_same(campaign: Campaign, tmp_path: Path) -> None:
    said: list[str] = []
    options = RunOptions(jobs=2, notify=said.append, support=tmp_path / "support", coverage_minutes=0.0)
    result = campaign(6, "toys:PICKY", options=options)
    assert result.totals.words == {"identical": 4, "unsupported": 2}
    assert said == [
        "NOT ASKED what toys:PICKY lack: what they refuse is run all the same (mindgap coverage toys:PICKY)"
    ]
    campaign(6, "toys:PICKY", out="asks", options=replace(options, coverage_minutes=None))
    said.clear()
    result = campaign(6, "toys:PICKY", out="knows", options=options)
    assert result.totals.words == {"identical": 4} and said == []
    # The plan may forbid it as well; without a store nothing is looked at at all.
    campaign(
        6, "toys:WRONG", out="plan", limits="coverage_minutes = 0", options=replace(options, coverage_minutes=None)
    )
    assert len(said) == 1 and "NOT ASKED what toys:WRONG lack" in said[0]


def test_what_the_budget_did_not_reach_is_said(campaign: Campaign, tmp_path: Path) -> None:
    said: list[str] = []
    options = RunOptions(jobs=1, notify=said.append, support=tmp_path / "support", coverage_minutes=1e-9)
    campaign(6, "toys:SLOW", options=options)
    assert "0 were asked" in said[1] and "4 WERE NOT ASKED, as" in said[1]


@pytest.mark.nightly
def test_a_platform_that_refuses_nothing_is_not_asked_everything(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindgap_surveys.support.graph_survey._SOME", 2)
    said: list[str] = []
    options = RunOptions(jobs=1, notify=said.append, support=tmp_path / "support")
    campaign(6, "toys:WRONG", "toys:REFUSES", options=options)
    assert "2 were asked" in said[1] and "2 were not asked, as it refused none before them" in said[1]
    assert "4 were asked" in said[2] and "it refuses 4" in said[2]


def test_a_session_that_was_killed_while_it_asked_asks_when_it_goes_on(tmp_path: Path) -> None:
    text = plan_text(6, {"toys:PICKY": ""}, top='reference = "toys:EXACT"')
    plan, said = parse_plan(text, "p"), list[str]()
    out = tmp_path / "out"
    Store(out)
    case_source = Small().begin(plan, out)
    create_directory(out, plan, text, Shard(), case_source.identity, "", SupportOptions(str(tmp_path / "support"), 5.0))
    result = resume_campaign(out, Small(), options=RunOptions(jobs=1, notify=said.append))
    assert result.totals.words == {"identical": 4} and result.platforms[0].refused == 2 and len(said) == 2
    assert open_directory(out).support_options.minutes == 5.0
    # A later session chooses as the first did, and asks nobody.
    said.clear()
    assert resume_campaign(out, Small(), options=RunOptions(jobs=1, notify=said.append)).totals.rows == 4 and said == []


def test_the_minutes_do_not_decide_what_a_campaign_is() -> None:
    text = plan_text(6, {"toys:PICKY": ""})
    more = plan_text(6, {"toys:PICKY": ""}, limits="coverage_minutes = 60")
    assert parse_plan(text, "p").digest == parse_plan(more, "p").digest
    assert parse_plan(text, "p").limits.coverage_minutes == 5.0
