"""The processor time of a campaign adds up to what the operating system counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_source import Small

from mindgap.results.store import Store
from mindgap_campaign.campaign.session import resume_campaign
from mindgap_campaign.campaign.state.expenses import CpuSpent, lines_of, spent

Campaign = Callable[..., Any]


@pytest.mark.nightly
def test_every_second_has_a_purpose_and_the_rows_have_theirs(campaign: Campaign, tmp_path: Path) -> None:
    result = campaign(12, "toys:SLOW", "toys:WRONG")
    cpu = result.cpu
    assert set(cpu.purposes) == {"preparing", "starting", "running", "judging", "drawing variants", "driver"}
    assert all(seconds > 0 for seconds in cpu.purposes.values())
    assert abs(cpu.unaccounted) < 0.05 * cpu.system
    # Each run of the slow toy takes 10 ms, and each case runs twice.
    assert cpu.platforms["running"]["toys:SLOW"] > 12 * 2 * 0.01
    rows = Store(tmp_path / "out", create=False).rows
    for platform in ("toys:SLOW", "toys:WRONG", "toys:EXACT"):
        summed = rows("SELECT sum(element_at(timings, 'cpu')[1]) AS s FROM outcomes WHERE platform = ?", [platform])
        assert summed[0]["s"] == pytest.approx(cpu.platforms["running"][platform])
    (judged,) = rows("SELECT sum(judge_seconds) AS s FROM verdicts")
    assert judged["s"] == pytest.approx(cpu.purposes["judging"])
    first, *others = lines_of(cpu)
    assert "% of it unaccounted" in first and len(others) == 3


def test_a_resume_adds_to_what_was_spent(campaign: Campaign, tmp_path: Path) -> None:
    before = campaign(12, "toys:SLOW", stop="minutes = 0.0001").cpu
    plan = tmp_path / "out" / "campaign.toml"
    plan.write_text(plan.read_text().replace("minutes = 0.0001", "minutes = 0"))
    after = resume_campaign(tmp_path / "out", Small()).cpu
    assert after.platforms["running"]["toys:SLOW"] > 12 * 2 * 0.01
    assert after.purposes["starting"] > before.purposes["starting"] > 0
    assert after.system > before.system + 12 * 2 * 0.01 and abs(after.unaccounted) < 0.05 * after.system


def test_a_store_without_an_account_says_nothing(tmp_path: Path) -> None:
    Store(tmp_path / "old")
    assert spent(Store(tmp_path / "old"), "x") == CpuSpent() and lines_of(CpuSpent()) == []
