"""The record of a campaign that is committed: the study reads from it what it reads from the campaign."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gap.gap_rows import made
from mindgap.results.store import Store
from mindgap_studies.gap import gap, gap_object

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
import campaign_record

sys.path.pop(0)


def tables_of(store: Store) -> dict[str, list[list[Any]]]:
    return {name: [list(row) for row in table["rows"]] for name, table in gap_object(gap(store))["tables"].items()}


@pytest.mark.parametrize("seed", range(4))
def test_the_study_of_a_record_is_that_of_the_campaign(tmp_path: Path, seed: int) -> None:
    campaign = Store(tmp_path / "campaign")
    run = made(campaign, seed).run
    campaign_record.record(campaign, run, record := Store(tmp_path / "record"))
    before, after = tables_of(campaign), tables_of(record)
    assert {name for name, rows in before.items() if rows} > {
        "totals",
        "failures",
        "consistency",
        "classes",
        "coverage",
    }
    assert before.keys() == after.keys()
    for name, rows in before.items():
        close = [[pytest.approx(cell, rel=1e-4) if isinstance(cell, float) else cell for cell in row] for row in rows]
        assert close == after[name], name


def test_a_campaign_without_rows_has_no_record(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no verdict"):
        campaign_record.record(Store(tmp_path / "campaign"), "campaign-1", Store(tmp_path / "record"))
