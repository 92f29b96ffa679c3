"""What a campaign runs and writes, from its plan to its totals."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_source import GRAPHS, Small, plan_text

from mindgap.graph import MindgapError
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.protocol import PlatformError
from mindgap.results.from_store import report_of
from mindgap.results.store import Store, StoreError
from mindgap_campaign.campaign.cases.case import Shard
from mindgap_campaign.campaign.plan import parse_plan, platform_plans
from mindgap_campaign.campaign.preparation import budgets_of
from mindgap_campaign.campaign.rejudge import judge_again
from mindgap_campaign.campaign.session import RunOptions, add_platforms, begin, resume_campaign
from mindgap_campaign.campaign.state.directory import open_directory
from mindgap_campaign.campaign.state.resume_state import ResumeState, read_resume_state
from mindgap_campaign.campaign.state.status import campaign_status, warnings_of

Campaign = Callable[..., Any]


def words(store: Store) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in store.rows("SELECT platform, word, count(*) AS n FROM verdicts GROUP BY ALL ORDER BY ALL"):
        found.setdefault(row["platform"], {})[row["word"]] = row["n"]
    return found


def test_every_case_on_every_platform_judged_and_counted(campaign: Campaign, tmp_path: Path) -> None:
    result = campaign(30, "toys:EXACT@number=2", "toys:WRONG", "toys:PICKY", "toys:FAILS", "toys:EXACT")
    store = Store(tmp_path / "out", create=False)
    # A third of the cases have an exp, a third a neg.
    assert words(store) == {
        "toys:EXACT@number=2": {"identical": 30},
        "toys:WRONG": {"discrepant": 10, "identical": 20},
        "toys:PICKY": {"identical": 20, "unsupported": 10},
        "toys:FAILS": {"failed": 30},
        "toys:EXACT": {"identical": 30},
    }
    assert {each.platform: dict(each.words) for each in result.platforms} == words(store)
    assert result.state == "finished" and result.totals.rows == 150 == sum(result.totals.words.values())
    assert result.totals.findings == 40 and result.reference_statuses == {"ok": 30}
    # Every figure again, from a report of the same run: the tables fit together.
    report = report_of(store)
    assert report.totals == result.totals
    assert {row.culprit.op for row in report.rows if row.verdict == "discrepant"} == {"aten.exp.default"}
    # What a variant is made of is kept with it.
    (row,) = store.rows("SELECT variant, name FROM graphs WHERE name = 'v000007'")
    assert json.loads(row["variant"]) == {"base": 1, "seed": 7}
    features = store.rows("SELECT features, seconds FROM blocks")[0]
    assert set(features["features"]) == {"aten.exp.default", "aten.add.Tensor", "aten.relu.default",
                                         "aten.neg.default", "rare 7", "rare 17", "rare 27"}  # fmt: skip
    assert features["seconds"] > 0 and result.features == 7
    # A failure is followed to its operator three times in a block, not thirty.
    followed = store.rows("SELECT count(*) AS n FROM verdicts WHERE platform = 'toys:FAILS' AND culprit_node >= 0")
    assert followed == [{"n": 3}]
    assert json.loads(result.to_json())["nothing"] == []


@pytest.mark.nightly
def test_bytes_are_kept_of_findings_only(campaign: Campaign, tmp_path: Path) -> None:
    campaign(9, "toys:WRONG")
    store = Store(tmp_path / "out", create=False)
    kept = {path.stem for path in (tmp_path / "out/graphs").rglob("*.graph")}
    wrong = {row["graph"] for row in store.rows("SELECT graph FROM verdicts WHERE verdict = 'discrepant'")}
    assert kept == wrong and len(kept) == 3
    assert all(store.get_graph(key).nodes[0].op == "aten.exp.default" for key in kept)


def test_the_most_novel_ones_and_what_is_known_to_be_refused(campaign: Campaign, tmp_path: Path) -> None:
    campaign(40, "toys:EXACT@number=2 variants = 6", "toys:SLOW cpu_minutes = 0.0001, batch = 4")
    store = Store(tmp_path / "out", create=False)
    chosen = store.rows("SELECT model FROM verdicts WHERE platform = 'toys:EXACT@number=2' ORDER BY model")
    # Three operators or a rarity at first, then what is left; never the same twice.
    names = {row["model"] for row in chosen}
    assert len(names) == 6 and {"v000007", "v000017", "v000027", "v000037"} <= names
    (slow,) = store.rows("SELECT count(*) AS n FROM verdicts WHERE platform = 'toys:SLOW'")
    (block,) = store.rows("SELECT left_out, given FROM blocks")
    # The first batch takes more than the budget, which is 6 ms.
    assert slow["n"] == 4 and block["left_out"] == {"toys:SLOW": 36}
    assert set(block["given"]["toys:EXACT@number=2"]) >= {"rare 7", "rare 17", "rare 27", "rare 37"}
    (cpu,) = store.rows("SELECT sum(element_at(timings, 'cpu')[1]) AS s FROM outcomes WHERE platform = 'toys:SLOW'")
    assert cpu["s"] > 0.006


@pytest.mark.parametrize(("how", "sizes"), [("batch = 8", "8 8 8 6"), ("variants = 10, batch = 8", "8 2")])
def test_a_batch_is_loaded_together_without_a_budget(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, sizes: str
) -> None:
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    result = campaign(30, f"toys:TOGETHER {how}", "toys:EXACT@number=2")
    assert (tmp_path / "log").read_text().split() == sizes.split()
    rows = {each.platform: each.rows for each in result.platforms}
    assert rows == {"toys:TOGETHER": sum(map(int, sizes.split())), "toys:EXACT@number=2": 30}
    assert result.state == "finished"


def test_what_is_known_to_be_refused_is_counted_and_not_run(campaign: Campaign, tmp_path: Path) -> None:
    from mindgap.run.local import fingerprint_of

    known = {
        "platform": "x", "fingerprint": fingerprint_of({"toy": "picky"}), "op": "aten.neg.default",
        "dtype": "float32", "layout": "contiguous", "answer": "refuses", "reason": "not in this toy",
        "signature": "", "count": 3,
    }  # fmt: skip
    Store(tmp_path / "known").append("support", known)
    result = campaign(30, "toys:PICKY", options=RunOptions(jobs=2, support=tmp_path / "known"))
    (picky,) = result.platforms
    assert picky.rows == 20 and picky.refused == 10 and picky.words == {"identical": 20}
    assert result.lacking == [("toys:PICKY", "aten.neg.default: not in this toy", 10)]


def test_nothing_is_loud(campaign: Campaign) -> None:
    result = campaign(6, "toys:REFUSES", "toys:EXACT@number=2")
    assert warnings_of(result) == ["NOTHING RAN on toys:REFUSES: it refused every one of 6 cases"]
    result = campaign(6, "toys:EXACT", out="other", top='reference = "toys:FAILS"')
    (said,) = warnings_of(result)
    assert "NOTHING WAS COMPARED" in said and "6 runtime_error" in said


@pytest.mark.nightly
def test_a_difference_that_there_is_no_time_for_is_a_word_of_its_own(campaign: Campaign, tmp_path: Path) -> None:
    result = campaign(6, "toys:WRONG", limits="judge_s = 0.001")
    assert result.totals.words == {"unjudged": 2, "identical": 4} and result.totals.findings == 0
    rows = Store(tmp_path / "out").rows("SELECT detail, verdict FROM verdicts WHERE word = 'unjudged'")
    assert all(row["verdict"] is None and "judging took more than 0.001 s" in row["detail"] for row in rows)
    assert report_of(Store(tmp_path / "out")).totals == result.totals


@pytest.mark.nightly
def test_shards_merged_are_the_whole(campaign: Campaign, tmp_path: Path) -> None:
    campaign(503, "toys:PICKY", out="whole")
    for index in range(2):
        campaign(503, "toys:PICKY", out=f"s{index}", shard=f"{index}/2")
    folder = open_directory(tmp_path / "s0")
    assert campaign_status(folder).cases == 500
    folder.store.merge(tmp_path / "s1")
    merged, whole = campaign_status(folder), campaign_status(open_directory(tmp_path / "whole"))
    assert merged.totals == whole.totals and merged.cases == whole.cases == 503
    assert merged.state == "finished" and merged.shards == ["0/2", "1/2"]
    sql = "SELECT run, model, graph, platform, status, word FROM verdicts ORDER BY ALL"
    assert folder.store.rows(sql) == Store(tmp_path / "whole").rows(sql)


@pytest.mark.nightly
def test_stops(campaign: Campaign, tmp_path: Path) -> None:
    result = campaign(503, "toys:EXACT@number=2", stop="variants = 7")
    assert result.cases == 500 and result.state == "finished", "whole blocks"
    result = campaign(5501, "toys:EXACT@number=2", out="dull", stop="saturation = 1", source=Small(rare=False))
    assert result.stopped == "the last 1 blocks brought nothing new" and 1000 <= result.cases <= 4500
    assert result.blocks_done == result.blocks_begun < result.blocks
    result = campaign(30, "toys:SLOW", out="late", stop="minutes = 0.0001")
    assert result.stopped == "0.0001 minutes are over" and result.state != "finished"
    plan = tmp_path / "late/campaign.toml"
    plan.write_text(plan.read_text().replace("minutes = 0.0001", "minutes = 0"))
    result = resume_campaign(tmp_path / "late", Small())
    assert result.state == "finished" and result.totals.rows == 30


@pytest.mark.nightly
def test_findings_are_judged_again_and_the_new_rows_count(campaign: Campaign, tmp_path: Path) -> None:
    """A finding that was none: the row says so, and what it should have said comes out of the second judgement."""
    campaign(30, "toys:WRONG", "toys:EXACT@number=2")
    store = Store(tmp_path / "out", create=False)
    # Of a case that the other platform gets wrong: its graph is kept.
    (row, *_) = store.rows(
        "SELECT * FROM verdicts WHERE platform = 'toys:EXACT@number=2' AND model IN "
        "(SELECT model FROM verdicts WHERE word = 'discrepant') ORDER BY model"
    )
    with store.writer() as writer:
        mistaken = {k: v for k, v in row.items() if not k.startswith("_")}
        writer.append("verdicts", {**mistaken, "verdict": "exceptional", "word": "exceptional"})
    assert words(store)["toys:EXACT@number=2"] == {"exceptional": 1, "identical": 29}
    one = judge_again(tmp_path / "out", platform="toys:WRONG", options=RunOptions(jobs=2))
    assert one == {("discrepant", "discrepant"): 10}
    changed = judge_again(tmp_path / "out", options=RunOptions(jobs=2))
    assert changed == {("exceptional", "identical"): 1, ("discrepant", "discrepant"): 10}
    assert words(store)["toys:EXACT@number=2"] == {"identical": 30} and words(store)["toys:WRONG"]["discrepant"] == 10
    with pytest.raises(MindgapError, match="no row on toys:WRONG that is exceptional"):
        judge_again(tmp_path / "out", ["exceptional"], "toys:WRONG")
    with pytest.raises(MindgapError, match=r"--word rounding: it takes one of failed, .* not_judged"):
        judge_again(tmp_path / "out", ["rounding"])


def test_a_stop_ends_between_blocks() -> None:
    """A block that is cut short counted as finished, and its other cases were never run."""
    stops = {0: 1203, 7: 500, 500: 500, 501: 1000, 1100: 1203}
    plans = {n: parse_plan(plan_text(1203, {"toys:EXACT": ""}, stop=f"variants = {n}"), "p") for n in stops}
    assert {n: plan.count for n, plan in plans.items()} == stops


def test_the_reference_has_no_budget() -> None:
    """It runs every case that another platform runs."""
    text = plan_text(
        6, {"toys:EXACT": "cpu_minutes = 1", "toys:SLOW": "cpu_minutes = 1"}, top='reference = "toys:EXACT"'
    )
    plan = parse_plan(text, "p")
    directory: Any = SimpleNamespace(plan=plan, shard=Shard())
    assert list(budgets_of(directory, list(plan.platforms), ResumeState())) == ["toys:SLOW"]


@pytest.mark.nightly
def test_a_session_counts_after_one_whose_clock_is_ahead(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time_ns
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: real() + 86_400 * 10**9)
        campaign(6, "toys:PICKY")
    added = platform_plans(["toys:EXACT@number=2"])
    result = add_platforms(tmp_path / "out", added, Small(), options=RunOptions(jobs=1))
    assert result.state == "finished"
    folder = open_directory(tmp_path / "out")
    assert read_resume_state(folder.store, folder).lacking == {}, "a resume has nothing more to run"


def test_wrong_use_is_one_clear_line(campaign: Campaign, tmp_path: Path) -> None:
    with pytest.raises(MindgapError, match="holds no campaign"):
        resume_campaign(tmp_path / "nowhere", Small())
    with pytest.raises(PlatformError, match="cuda/eager is not available here"):
        campaign(6, "cuda/eager")
    with pytest.raises(MindgapError, match=r"toys:BROKEN cannot be opened.*another version"):
        campaign(6, "toys:BROKEN", out="broken")
    with pytest.raises(MindgapError, match="no case could be made"):
        campaign(6, "toys:EXACT", out="empty", source=Empty())
    campaign(3, "toys:EXACT@number=2")
    with pytest.raises(MindgapError, match="holds a campaign already: go on with `mindgap campaign resume"):
        campaign(3, "toys:EXACT@number=2")
    with pytest.raises(StoreError, match="no store and not empty"):
        (tmp_path / "full").mkdir()
        (tmp_path / "full/thesis.doc").write_text("mine")
        campaign(3, "toys:EXACT@number=2", out="full")


def test_what_is_absent_may_be_left_out_loudly(campaign: Campaign) -> None:
    said: list[str] = []
    top = 'reference = "toys:EXACT"\nskip_unavailable = true'
    result = campaign(
        3, "cuda/eager", "toys:BROKEN", "toys:PICKY", top=top, options=RunOptions(jobs=2, notify=said.append)
    )
    assert [each.platform for each in result.platforms] == ["toys:PICKY"]
    assert any("LEFT OUT" in line and "cuda/eager" in line for line in said)
    assert any("LEFT OUT" in line and "toys:BROKEN" in line for line in said)


def test_a_plan_or_a_pool_that_changed_stops_a_resume(campaign: Campaign, tmp_path: Path) -> None:
    campaign(3, "toys:PICKY")
    plan = tmp_path / "out/campaign.toml"
    text = plan.read_text()
    plan.write_text(text.replace("seed = 7", "seed = 8"))
    with pytest.raises(MindgapError, match=r"was changed since the campaign began \(seed\)"):
        resume_campaign(tmp_path / "out", Small())
    plan.write_text(text)
    Small(GRAPHS[:2]).begin(open_directory(tmp_path / "out").plan, tmp_path / "out")
    with pytest.raises(MindgapError, match="what its cases are made of has changed"):
        resume_campaign(tmp_path / "out", Small())
    Small().begin(open_directory(tmp_path / "out").plan, tmp_path / "out")
    assert resume_campaign(tmp_path / "out", Small()).totals.rows == 3


@pytest.mark.nightly
def test_a_platform_that_is_another_than_at_the_beginning_is_said(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign(3, "toys:PICKY")
    said: list[str] = []
    resume_campaign(tmp_path / "out", Small(), options=RunOptions(jobs=1, notify=said.append))
    assert said == []
    monkeypatch.setenv("TOY_VERSION", "2")
    resume_campaign(tmp_path / "out", Small(), options=RunOptions(jobs=1, notify=said.append))
    assert len(said) == 2 and "CHANGED since the campaign began" in said[1] and "toys:PICKY" in said[1]


def test_a_damaged_store_is_named(campaign: Campaign, tmp_path: Path) -> None:
    campaign(3, "toys:PICKY")
    (segment, *_) = sorted((tmp_path / "out/tables/verdicts").iterdir())
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match="damaged or cut short"):
        resume_campaign(tmp_path / "out", Small())
    # Moved away, what it held is run again.
    segment.unlink()
    for block in (tmp_path / "out/tables/blocks").iterdir():
        block.unlink()
    assert resume_campaign(tmp_path / "out", Small()).totals.rows == 3
    (tmp_path / "out/mindgap-store.json").write_text('{"format": "mindgap-store", "version": 1}')
    with pytest.raises(StoreError, match="store of version 1"):
        resume_campaign(tmp_path / "out", Small())


class Empty:
    def begin(self, plan: Any, folder: Path) -> Any:
        return self

    def reopen(self, plan: Any, folder: Path) -> Any:
        return self

    identity = "none"

    def block(self, number: int) -> list[Any]:
        return []


def test_the_folder_is_made_before_the_first_row(tmp_path: Path) -> None:
    """What fails on the way to a case_source leaves no campaign behind, so that it can be begun again."""
    from small_source import plan_text

    from mindgap_campaign.campaign.plan import parse_plan

    class Fails:
        def begin(self, plan: Any, folder: Path) -> Any:
            raise MindgapError("no catalogue")

        again = begin

    text = plan_text(3, {"toys:PICKY": ""}, top='reference = "toys:EXACT"')
    plan = parse_plan(text, "p")
    with pytest.raises(MindgapError, match="no catalogue"):
        begin(plan, text, tmp_path / "c", Fails())
    assert begin(plan, text, tmp_path / "c", Small(), options=RunOptions(jobs=1)).totals.rows == 3


CUT = """
import os, subprocess, sys
worker = subprocess.Popen([sys.executable, "-m", "mindgap", "worker"], stdout=subprocess.PIPE)
left = int(sys.argv[1])
while left > 0 and (data := os.read(worker.stdout.fileno(), 1000)):
    os.write(1, data)
    left -= len(data)
worker.kill()
"""


@pytest.mark.nightly
def test_a_campaign_on_a_host_that_goes_away_is_resumed_as_if_nothing_had_been(
    campaign: Campaign, tmp_path: Path
) -> None:
    (tmp_path / "cut.py").write_text(CUT)
    gate = tmp_path / "gate"
    gate.touch()
    whole = f"{sys.executable} -m mindgap worker"
    cut = f"sh -c 'rm {gate} && exec {sys.executable} {tmp_path}/cut.py 12000'"

    def run(out: str, command: str) -> None:
        host = f'[hosts.edge]\ncommand = "{command}"\nwait_s = 0'
        campaign(30, "toys:WRONG@host=edge", out=out, stop=host)

    run("calm", whole)
    with pytest.raises(HostProblem, match="host edge: "):
        run("out", cut)
    plan = tmp_path / "out/campaign.toml"
    assert 0 < len(rows := told(tmp_path / "out")) < 30
    with pytest.raises(MindgapError, match="platform toys:WRONG@host=edge cannot be opened: host edge"):
        resume_campaign(tmp_path / "out", Small())
    plan.write_text(plan.read_text().replace(cut, whole))
    resume_campaign(tmp_path / "out", Small())
    assert told(tmp_path / "out") == told(tmp_path / "calm") and rows <= told(tmp_path / "out")


def told(folder: Path) -> set[tuple[str, ...]]:
    found = Store(folder, create=False).rows("SELECT model, platform, word, culprit_op FROM verdicts")
    return {tuple(map(str, row.values())) for row in found}
