"""Kill −9 of the driver and of workers: after a resume, nothing tells that there was one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from kills import Sessions, contents, differences

from mindgap.results.store import Store

PLATFORMS = ("toys:WRONG", "toys:SLOW")


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_campaign_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    rng = random.Random(4)
    calm = Sessions(tmp_path / "calm", 90, "toys:EXACT", PLATFORMS)
    took = calm.finish("begin")
    killed = Sessions(tmp_path / "killed", 90, "toys:EXACT", PLATFORMS)
    struck = [
        killed.kill_driver(rng.uniform(0.4, 0.9) * took, "begin"),
        killed.kill_driver(rng.uniform(0.4, 0.9) * took),
    ]
    struck.append(bool(killed.kill_worker(rng.uniform(0.4, 0.7) * took, rng)))
    killed.finish("resume")
    assert any(struck)
    assert differences(contents(tmp_path / "killed"), contents(tmp_path / "calm")) == []
    # The comparison has something to compare, and sees what it should.
    found = contents(tmp_path / "calm")
    assert len(found["verdicts"]) == 180 and len(found["outcomes"]) == 270
    assert {row["word"] for row in found["verdicts"]} == {"identical", "discrepant"}
    other = contents(tmp_path / "calm")
    other["verdicts"][7] = {**other["verdicts"][7], "word": "rounding"}
    assert len(differences(found, other)) == 2
    assert Store(tmp_path / "killed").check() == []


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_platforms_that_are_added_are_there_whole_after_kills(tmp_path: Path) -> None:
    rng = random.Random(5)
    sessions = {
        name: (
            Sessions(tmp_path / name, 40, "toys:EXACT", ["toys:PICKY"]),
            Sessions(tmp_path / name, 40, "toys:EXACT", PLATFORMS),
        )
        for name in ("calm", "killed")
    }
    for begun, _ in sessions.values():
        begun.finish("begin")
    took = sessions["calm"][1].finish("add")
    added = sessions["killed"][1]
    struck = [added.kill_driver(rng.uniform(0.5, 0.9) * took, "add") for _ in range(2)]
    added.finish("add")
    assert any(struck)
    found = contents(tmp_path / "killed")
    assert differences(found, contents(tmp_path / "calm")) == [] and len(found["verdicts"]) == 120
