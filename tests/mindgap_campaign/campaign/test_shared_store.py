"""A campaign whose results go to a bucket: full, resumed, continued on another machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_source import Small

from mindgap.results.store import Store, StoreError
from mindgap_campaign.campaign.plan import platform_plans
from mindgap_campaign.campaign.session import RunOptions, add_platforms, resume_campaign
from mindgap_campaign.campaign.state.bundle_transfer import import_results
from mindgap_campaign.campaign.state.directory import open_directory
from mindgap_campaign.campaign.state.status import campaign_status
from results.store.object_store import FULL, object_store

URL = "s3://bucket/campaign"
OPTIONS = RunOptions(jobs=1, store_url=URL)


def test_results_go_to_a_url_and_the_directory_keeps_the_rest(campaign: Callable[..., Any], tmp_path: Path) -> None:
    url = "memory://campaign-of-a-test"
    result = campaign(3, "toys:EXACT@number=2", options=RunOptions(jobs=1, store_url=url))
    assert result.state == "finished" and not (tmp_path / "out/tables").exists()
    directory = open_directory(tmp_path / "out")
    assert directory.store.url == url and campaign_status(directory).totals == result.totals
    assert len(Store(url, create=False).rows("SELECT * FROM verdicts")) == 3
    # At home, results are taken from there.
    here = Store(tmp_path / "here")
    assert import_results(replace(directory, path=tmp_path / "here", store_url=""), [url]).segments > 0
    assert len(here.rows("SELECT * FROM verdicts")) == 3


@pytest.mark.nightly
def test_a_full_bucket_ends_the_session_and_any_machine_goes_on(
    campaign: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with object_store(monkeypatch) as server:
        # The marker of the store, the run and its platforms, and what the first rows need.
        server.refusal, server.after = FULL, 4
        with pytest.raises(
            StoreError, match=r"s3://bucket/campaign/.* cannot be written.*XMinioStorageFull.*make room"
        ):
            campaign(6, "toys:EXACT@number=2", options=OPTIONS)
        server.refusal = None
        assert campaign_status(open_directory(tmp_path / "out")).state == "unfinished"
        assert Store(URL, create=False).check() == []
        # Another machine has the plan and the catalogue, and nothing of the first one's directory.
        result = campaign(6, "toys:EXACT@number=2", out="other", options=OPTIONS)
        assert result.state == "finished" and result.totals.words == {"identical": 6}
        # The first machine sees that, and has nothing left to run.
        resumed = resume_campaign(tmp_path / "out", Small(), options=RunOptions(jobs=1))
        assert resumed.totals == result.totals and resumed.run == result.run
        assert not (tmp_path / "out/tables").exists()
        added = add_platforms(tmp_path / "out", platform_plans(["toys:PICKY"]), Small(), options=RunOptions(jobs=1))
        assert added.totals.words == {"identical": 6 + 4, "unsupported": 2}
