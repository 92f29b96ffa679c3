"""What is known of a campaign while it runs: what it is doing, who runs it, how far it is, and what is left."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_source import Small

from mindgap.graph import MindgapError
from mindgap.results.from_store import report_of
from mindgap.results.rows import Row
from mindgap.results.store import Store
from mindgap_campaign.campaign.session import RunOptions, resume_campaign
from mindgap_campaign.campaign.state import session_file
from mindgap_campaign.campaign.state.directory import open_directory, write_whole
from mindgap_campaign.campaign.state.progress import Progress
from mindgap_campaign.campaign.state.resume_state import finding_key
from mindgap_campaign.campaign.state.session_file import SESSION, RunningSession, published, running
from mindgap_campaign.campaign.state.status import campaign_status, starting
from mindgap_campaign.campaign.state.steps import StepTracker

Campaign = Callable[..., Any]
HERE = Path(__file__).parent


def test_a_session_is_seen_from_its_first_moment_to_its_last(campaign: Campaign, tmp_path: Path) -> None:
    seen: list[RunningSession | None] = []

    class Looks(Small):
        def begin(self, plan: Any, folder: Path) -> Any:
            seen.append(starting(folder))
            with pytest.raises(MindgapError, match="holds no campaign"):
                open_directory(folder)
            return super().begin(plan, folder)

        def reopen(self, plan: Any, folder: Path) -> Any:
            # A resume, during which the store holds what was there before.
            if (folder / "campaign.json").exists():
                assert starting(folder) is None
                found = campaign_status(open_directory(folder))
                seen.append(found.running)
                assert found.state == "running" and found.totals.rows == 9
            return super().reopen(plan, folder)

    assert campaign(9, "toys:PICKY", source=Looks()).state == "finished"
    assert starting(tmp_path / "out") is None and not (tmp_path / "out" / SESSION).exists()
    resume_campaign(tmp_path / "out", Looks())
    for each in seen:
        assert each is not None and (each.pid, each.host) == (os.getpid(), platform.node()) and each.cases is None
        assert each.step == "loading what the cases are made of" and 0 <= each.seconds < 600
    assert len(seen) == 2


@pytest.mark.nightly
def test_a_running_campaign_is_told_from_a_killed_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, str(HERE / "driver.py"), "begin", str(out), "4000", "toys:EXACT", "toys:SLOW"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 250
        while (session := running(out)) is None or not session.rows:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.1)
        found = campaign_status(open_directory(out))
        assert found.state == "running" and found.running is not None and found.running.pid == process.pid
        assert found.running.step == "running" and 0 < (found.running.cases or 0) <= found.running.planned == 4000
        content = json.loads(found.to_json())["running"]
        assert (content["pid"] == process.pid and content["eta_s"] is None) or content["eta_s"] > 0
        with pytest.raises(MindgapError, match=rf"a session runs there already, process {process.pid} on"):
            resume_campaign(out, Small())
    finally:
        os.kill(process.pid, signal.SIGKILL)
    # Not waited for yet: a process that has ended and that nobody has asked about runs no campaign.
    while running(out) is not None:
        time.sleep(0.05)
    process.wait()
    assert (out / SESSION).exists(), "the kill left it behind"
    try:
        assert campaign_status(open_directory(out)).state == "unfinished"
    except MindgapError as error:
        assert "has nothing in its store yet" in str(error)


def test_the_file_of_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = StepTracker()
    steps.step("making a pool", 15_000)
    steps.tick(1200, 15_000)
    with published(tmp_path, steps):
        found = running(tmp_path)
        assert found is not None and (found.step, found.done, found.total) == ("making a pool", 1200, 15_000)
        content = json.loads((tmp_path / SESSION).read_text())
        with pytest.raises(MindgapError, match="a session runs there already"), published(tmp_path, steps):
            pass
        assert (tmp_path / SESSION).exists()
    assert running(tmp_path) is None

    def kept(**changes: Any) -> RunningSession | None:
        (tmp_path / SESSION).write_text(json.dumps({**content, **changes}))
        return running(tmp_path)

    assert kept() == found or kept() is not None
    assert kept(process=content["process"] - 100) is None, "another process has the number now"
    assert kept(pid=2**22 + 1) is None
    # Of another machine's processes nothing is known here but that they write, whatever their clock says.
    monkeypatch.setattr(session_file, "_QUIET_S", 0.5)
    assert kept(host="elsewhere") is None and kept(host="elsewhere", moment=content["moment"] + 86_400) is None
    over = threading.Event()

    def write() -> None:
        behind = {**content, "host": "elsewhere", "moment": content["moment"] - 86_400}
        while not over.wait(0.02):
            behind["moment"] += 1
            write_whole(tmp_path / SESSION, json.dumps(behind).encode())

    writes = threading.Thread(target=write)
    monkeypatch.setattr(session_file, "_QUIET_S", 20.0)
    writes.start()
    there = running(tmp_path)
    over.set()
    writes.join()
    assert there is not None and there.host == "elsewhere"
    (tmp_path / SESSION).write_text("{")
    with pytest.raises(MindgapError, match="remove it if no session runs"):
        running(tmp_path)


@pytest.mark.nightly
def test_distinct_findings_are_counted_before_their_block_is_done(campaign: Campaign, tmp_path: Path) -> None:
    result = campaign(30, "toys:WRONG", "toys:FAILS")
    store = Store(tmp_path / "out", create=False)
    rows = [row for row in report_of(store).rows if row.finding]
    kinds = {finding_key(r.platform, r.word, r.culprit.op if r.culprit else None, r.signature) for r in rows}
    assert result.found == len(kinds) >= 3 and result.totals.findings == len(rows) == 40
    for block in (tmp_path / "out/tables/blocks").iterdir():
        block.unlink()
    before = campaign_status(open_directory(tmp_path / "out"))
    assert before.blocks_done == 0 and before.found == result.found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time by which `Progress` counts."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr("mindgap_campaign.campaign.state.progress.time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


ROW = Row("m", "toys:WRONG", "ok", "identical")


def test_the_time_left_counts_rows_that_wait_for_a_judge(clock: SimpleNamespace) -> None:
    progress = Progress(planned=60)
    assert progress.snapshot().eta_s is None, "nothing is known"
    progress.block(0, cases=60, pairs=120, features=5, new=5)
    assert progress.snapshot().eta_s is None, "nothing has been finished"
    for _ in range(60):
        progress.case()
    progress.judge(97)
    for _ in range(23):
        progress.row(ROW)
        progress.finished()
    clock.seconds += 10
    found = progress.snapshot()
    assert found.cases == found.planned == 60 and found.judging == 97
    # 97 of 120 pairs are left, at 2.3 rows a second.
    assert found.eta_s == pytest.approx(97 / 2.3)
    for _ in range(10):
        progress.judge(-1)
        progress.row(ROW)
        progress.finished()
    clock.seconds += 10
    # JudgeProcess alone is what is left, and slower: ten rows in twenty seconds.
    assert progress.snapshot().eta_s == pytest.approx(87 / 0.5)
    for _ in range(87):
        progress.judge(-1)
        progress.row(ROW)
        progress.finished()
    assert progress.snapshot().eta_s == 0.0


def test_the_time_left_counts_blocks_that_have_not_begun(clock: SimpleNamespace) -> None:
    progress = Progress(planned=2000, cases=500)
    progress.block(1, cases=500, pairs=1500, features=5, new=5)
    for _ in range(300):
        progress.row(ROW)
        progress.finished()
    clock.seconds += 100
    # 1,200 pairs of the block, and 3 for each of the 1,000 cases to come.
    assert progress.snapshot().eta_s == pytest.approx(4200 / 3)


def test_steps_follow_each_other(clock: SimpleNamespace) -> None:
    steps = StepTracker("importing")
    assert (steps.now().line(), steps.now().number) == ("importing", 0)
    steps.step("making a pool", 15_000)
    steps.tick(1200, 15_000)
    assert steps.now().line() == "making a pool: 1,200 of 15,000" and steps.now().number == 1
    progress = Progress(planned=3)
    steps.run(progress)
    progress.case()
    step = steps.now()
    assert step.running is not None and step.running.cases == 1
    steps.step("writing")
    assert steps.now().running is None and steps.ran is progress


def test_a_manner_has_its_own_progress() -> None:
    assert RunOptions().steps is not RunOptions().steps
