"""A disk that fills up: said in one line, nothing that was written is lost, and a resume ends it."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_source import Small

from mindgap.results.store import Store, StoreError
from mindgap_campaign.campaign.session import RunOptions, resume_campaign
from mindgap_campaign.campaign.state.directory import open_directory
from mindgap_campaign.campaign.state.status import campaign_status


@pytest.mark.nightly
def test_a_full_disk_ends_the_session_and_a_resume_the_campaign(campaign: Callable[..., Any], tmp_path: Path) -> None:
    campaign(4, "toys:SLOW", stop="minutes = 0.00001")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    plan = tmp_path / "out/campaign.toml"
    plan.write_text(plan.read_text().replace("minutes = 0.00001", "minutes = 0"))
    # No file may become larger than this, as on a disk with as much room.
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, hard))
    try:
        with pytest.raises(StoreError, match=r"cannot be written.*what was published before is intact: make room"):
            resume_campaign(tmp_path / "out", Small(), options=RunOptions(jobs=1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert Store(tmp_path / "out").check() == []
    assert campaign_status(open_directory(tmp_path / "out")).state != "finished"
    result = resume_campaign(tmp_path / "out", Small(), options=RunOptions(jobs=1))
    assert result.state == "finished" and result.totals.words == {"identical": 4}
