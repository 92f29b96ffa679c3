"""What is known of a campaign while it runs: what it is doing, who runs it, how far it is, and what is left."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_supply import Small

from mindgap.campaign.session import Manner, go_on
from mindgap.campaign.state.directory import open_folder
from mindgap.campaign.state.progress import Live
from mindgap.campaign.state.resume_state import finding_key
from mindgap.campaign.state.session_file import SESSION, Running, announced, running
from mindgap.campaign.state.status import standing_of, starting
from mindgap.campaign.state.steps import Progress
from mindgap.graph import MindgapError
from mindgap.results.from_store import report_of
from mindgap.results.rows import Row
from mindgap.store import Store

Campaign = Callable[..., Any]
HERE = Path(__file__).parent


def test_a_session_is_seen_from_its_first_moment_to_its_last(campaign: Campaign, tmp_path: Path) -> None:
    seen: list[Running | None] = []

    class Looks(Small):
        def begin(self, plan: Any, folder: Path) -> Any:
            seen.append(starting(folder))
            with pytest.raises(MindgapError, match="holds no campaign"):
                open_folder(folder)
            return super().begin(plan, folder)

        def again(self, plan: Any, folder: Path) -> Any:
            # A resume, during which the store holds what was there before.
            if (folder / "campaign.json").exists():
                assert starting(folder) is None
                found = standing_of(open_folder(folder))
                seen.append(found.running)
                assert found.state == "running" and found.totals.rows == 9
            return super().again(plan, folder)

    assert campaign(9, "toys:PICKY", source=Looks()).state == "finished"
    assert starting(tmp_path / "out") is None and not (tmp_path / "out" / SESSION).exists()
    go_on(tmp_path / "out", Looks())
    for each in seen:
        assert each is not None and (each.pid, each.host) == (os.getpid(), platform.node()) and each.cases is None
        assert each.step == "loading what the cases are made of" and 0 <= each.seconds < 600
    assert len(seen) == 2


def test_a_running_campaign_is_told_from_a_killed_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, str(HERE / "driver.py"), "begin", str(out), "4000", "toys:EXACT", "toys:SLOW"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 250
        while (session := running(out)) is None or not session.rows:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.1)
        found = standing_of(open_folder(out))
        assert found.state == "running" and found.running is not None and found.running.pid == process.pid
        assert found.running.step == "running" and 0 < (found.running.cases or 0) <= found.running.planned == 4000
        told = json.loads(found.to_json())["running"]
        assert (told["pid"] == process.pid and told["eta_s"] is None) or told["eta_s"] > 0
        with pytest.raises(MindgapError, match=rf"a session runs there already, process {process.pid} on"):
            go_on(out, Small())
    finally:
        os.kill(process.pid, signal.SIGKILL)
    # Not waited for yet: a process that has ended and that nobody has asked about runs no campaign.
    while running(out) is not None:
        time.sleep(0.05)
    process.wait()
    assert (out / SESSION).exists(), "the kill left it behind"
    try:
        assert standing_of(open_folder(out)).state == "unfinished"
    except MindgapError as error:
        assert "has nothing in its store yet" in str(error)


def test_the_file_of_a_session(tmp_path: Path) -> None:
    progress = Progress()
    progress.step("making a pool", 15_000)
    progress.tick(1200, 15_000)
    with announced(tmp_path, progress):
        found = running(tmp_path)
        assert found is not None and (found.step, found.done, found.total) == ("making a pool", 1200, 15_000)
        told = json.loads((tmp_path / SESSION).read_text())
        with pytest.raises(MindgapError, match="a session runs there already"), announced(tmp_path, progress):
            pass
        assert (tmp_path / SESSION).exists()
    assert running(tmp_path) is None

    def kept(**changes: Any) -> Running | None:
        (tmp_path / SESSION).write_text(json.dumps({**told, **changes}))
        return running(tmp_path)

    assert kept() == found or kept() is not None
    assert kept(process=told["process"] - 100) is None, "another process has the number now"
    assert kept(pid=2**22 + 1) is None
    # Of another machine's processes nothing is known here but when they wrote.
    assert kept(host="elsewhere") is not None
    assert kept(host="elsewhere", moment=told["moment"] - 1000) is None
    (tmp_path / SESSION).write_text("{")
    with pytest.raises(MindgapError, match="remove it if no session runs"):
        running(tmp_path)


def test_distinct_findings_are_counted_before_their_block_is_done(campaign: Campaign, tmp_path: Path) -> None:
    standing = campaign(30, "toys:WRONG", "toys:FAILS")
    store = Store(tmp_path / "out", create=False)
    rows = [row for row in report_of(store).rows if row.finding]
    kinds = {finding_key(r.platform, r.word, r.culprit.op if r.culprit else None, r.signature) for r in rows}
    assert standing.found == len(kinds) >= 3 and standing.totals.findings == len(rows) == 40
    for block in (tmp_path / "out/tables/blocks").iterdir():
        block.unlink()
    before = standing_of(open_folder(tmp_path / "out"))
    assert before.blocks_done == 0 and before.found == standing.found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time by which `Live` counts."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr("mindgap.campaign.state.progress.time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


ROW = Row("m", "toys:WRONG", "ok", "identical")


def test_the_time_left_counts_rows_that_wait_for_a_judge(clock: SimpleNamespace) -> None:
    live = Live(planned=60)
    assert live.snapshot().eta_s is None, "nothing is known"
    live.block(0, cases=60, pairs=120, features=5, new=5)
    assert live.snapshot().eta_s is None, "nothing has been finished"
    for _ in range(60):
        live.case()
    live.judge(97)
    for _ in range(23):
        live.row(ROW)
        live.finished()
    clock.seconds += 10
    found = live.snapshot()
    assert found.cases == found.planned == 60 and found.judging == 97
    # 97 of 120 pairs are left, at 2.3 rows a second.
    assert found.eta_s == pytest.approx(97 / 2.3)
    for _ in range(10):
        live.judge(-1)
        live.row(ROW)
        live.finished()
    clock.seconds += 10
    # Judging alone is what is left, and slower: ten rows in twenty seconds.
    assert live.snapshot().eta_s == pytest.approx(87 / 0.5)
    for _ in range(87):
        live.judge(-1)
        live.row(ROW)
        live.finished()
    assert live.snapshot().eta_s == 0.0


def test_the_time_left_counts_blocks_that_have_not_begun(clock: SimpleNamespace) -> None:
    live = Live(planned=2000, cases=500)
    live.block(1, cases=500, pairs=1500, features=5, new=5)
    for _ in range(300):
        live.row(ROW)
        live.finished()
    clock.seconds += 100
    # 1,200 pairs of the block, and 3 for each of the 1,000 cases to come.
    assert live.snapshot().eta_s == pytest.approx(4200 / 3)


def test_steps_follow_each_other(clock: SimpleNamespace) -> None:
    progress = Progress("importing")
    assert (progress.now().line(), progress.now().number) == ("importing", 0)
    progress.step("making a pool", 15_000)
    progress.tick(1200, 15_000)
    assert progress.now().line() == "making a pool: 1,200 of 15,000" and progress.now().number == 1
    live = Live(planned=3)
    progress.run(live)
    live.case()
    step = progress.now()
    assert step.running is not None and step.running.cases == 1
    progress.step("writing")
    assert progress.now().running is None and progress.ran is live


def test_a_manner_has_its_own_progress() -> None:
    assert Manner().progress is not Manner().progress
