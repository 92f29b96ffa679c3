"""Platforms that are added to a finished campaign: the same cases, the same reference, rows of the same run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kills import contents, differences
from small_source import Small

from mindgap.graph import MindgapError
from mindgap.results.from_store import report_of
from mindgap.results.store import Store
from mindgap.run.pool import WorkerPool
from mindgap_campaign.campaign.plan import platform_plans
from mindgap_campaign.campaign.session import RunOptions, add_platforms, resume_campaign
from mindgap_campaign.campaign.state.directory import open_directory
from mindgap_campaign.campaign.state.status import campaign_status

Campaign = Callable[..., Any]
JOBS = RunOptions(jobs=1)


def add(path: Path, *names: str, options: RunOptions = JOBS, **how: Any) -> Any:
    return add_platforms(path, platform_plans(names, **how), Small(), options=options)


def comparable(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """What must be the same, but for the name of the run and for the mark of added platforms in a block's `given`."""
    found = contents(directory)
    for row in (row for rows in found.values() for row in rows):
        row.pop("run", None)
        row["given"] = {name: each for name, each in (row.get("given") or {}).items() if each}
    return found


@pytest.mark.nightly
def test_added_platforms_run_what_the_reference_has_run(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = campaign(12, "toys:PICKY")
    ran: list[str] = []
    run = WorkerPool.run
    monkeypatch.setattr(WorkerPool, "run", lambda pool, job: ran.append(job.platform) or run(pool, job))
    result = add(tmp_path / "out", "toys:EXACT@number=2", "toys:REFUSES")
    # Digests of the reference come from the store.
    assert Counter(ran) == {"toys:EXACT@number=2": 12, "toys:REFUSES": 12}
    assert result.run == began.run and result.state == "finished" and result.cases == 12
    # One query, one run: totals of all platforms, which a report of the same run has too.
    assert result.totals.words == {"identical": 8 + 12, "unsupported": 4 + 12}
    assert report_of(Store(tmp_path / "out", create=False)).totals == result.totals


@pytest.mark.nightly
def test_added_platforms_have_the_rows_that_they_would_have_had(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = campaign(30, "toys:PICKY")
    ran: list[str] = []
    run = WorkerPool.run
    monkeypatch.setattr(WorkerPool, "run", lambda pool, job: ran.append(f"{job.platform} {job.want}") or run(pool, job))
    result = add(tmp_path / "out", "toys:WRONG", "toys:FAILS")
    # Digests of the reference come from the store. It runs again where a judge needs values; what had run does not.
    assert ran.count("toys:WRONG digests") == 30 and "toys:EXACT digests" not in ran
    assert any(each.startswith("toys:EXACT") for each in ran)
    assert not any(each.startswith("toys:PICKY") for each in ran)
    campaign(30, "toys:PICKY", "toys:WRONG", "toys:FAILS", out="at_once")
    assert differences(comparable(tmp_path / "out"), comparable(tmp_path / "at_once")) == []
    # One query, one run: totals of all platforms, which a report of the same run has too.
    store = Store(tmp_path / "out", create=False)
    assert result.run == began.run and result.state == "finished" and result.cases == 30
    rows = {"toys:PICKY": 30, "toys:WRONG": 30, "toys:FAILS": 30}
    assert {each.platform: each.rows for each in result.platforms} == rows
    assert report_of(store).totals == result.totals and result.totals.rows == 90
    assert result.totals.words == {"discrepant": 10, "failed": 30, "identical": 40, "unsupported": 10}
    listed = store.rows("SELECT platform FROM platforms WHERE fingerprint = '' AND available ORDER BY position")
    assert [row["platform"] for row in listed] == ["toys:EXACT", *rows]
    again = resume_campaign(tmp_path / "out", Small(), options=JOBS)
    assert again.totals == result.totals and again.state == "finished"


@pytest.mark.nightly
def test_interrupted_and_resumed(campaign: Campaign, tmp_path: Path) -> None:
    campaign(40, "toys:PICKY variants = 10")
    plan = tmp_path / "out/campaign.toml"
    text = plan.read_text()
    plan.write_text(text + "minutes = 0.0001")
    stopped = add(tmp_path / "out", "toys:EXACT@number=2", "toys:SLOW", variants=20)
    assert stopped.stopped and stopped.state == "unfinished"
    with pytest.raises(MindgapError, match="is not finished: run `mindgap campaign resume"):
        add(tmp_path / "out", "toys:WRONG")
    plan.write_text(text)
    result = resume_campaign(tmp_path / "out", Small(), options=JOBS)
    rows = {each.platform: each.rows for each in result.platforms}
    assert rows == {"toys:PICKY": 10, "toys:EXACT@number=2": 20, "toys:SLOW": 20} and result.state == "finished"
    # Cases that nothing had run before have their reference's outcome now.
    assert result.cases == len(Store(tmp_path / "out").rows("SELECT DISTINCT model FROM verdicts"))


def test_wrong_use_adds_nothing(campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign(3, "toys:PICKY")
    with pytest.raises(MindgapError, match="has the platform toys:PICKY already"):
        add(tmp_path / "out", "toys:PICKY")
    with pytest.raises(MindgapError, match="toys:WRONG is named twice"):
        add(tmp_path / "out", "toys:WRONG", "toys:WRONG")
    with pytest.raises(MindgapError, match="toys:BROKEN cannot be opened"):
        add(tmp_path / "out", "toys:BROKEN")
    monkeypatch.setenv("TOY_VERSION", "2")
    with pytest.raises(MindgapError, match=r"reference toys:EXACT has changed .* since 3 of 3 cases ran on it"):
        add(tmp_path / "out", "toys:WRONG")
    directory = open_directory(tmp_path / "out")
    assert dict(directory.added) == {} and campaign_status(directory).state == "finished"
    plan = tmp_path / "out/campaign.toml"
    plan.write_text(plan.read_text().replace("[limits]", '"toys:WRONG" = {}\n[limits]'))
    with pytest.raises(MindgapError, match=r"was changed .*`mindgap campaign add .* PLATFORM` adds a platform"):
        open_directory(tmp_path / "out")
