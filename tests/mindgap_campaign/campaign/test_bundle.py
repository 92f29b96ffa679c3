"""A bundle goes out, Parquet comes back."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_source import Small

from mindgap.graph import MindgapError
from mindgap.platforms.name import parse
from mindgap.results.from_store import report_of, runs
from mindgap.results.store import Store
from mindgap_campaign.campaign.cases.bundle import BundleError, BundleSource, BundleSourceFactory, is_bundle, plan_of
from mindgap_campaign.campaign.preparation import check_changes
from mindgap_campaign.campaign.session import RunOptions, begin, resume_campaign
from mindgap_campaign.campaign.state.bundle_transfer import agreement, export, import_results
from mindgap_campaign.campaign.state.directory import open_directory
from mindgap_campaign.cli.campaign_view import print_status

Campaign = Callable[..., Any]


@pytest.fixture
def packed(campaign: Campaign, tmp_path: Path) -> Path:
    campaign(12, "toys:PICKY")
    folder = open_directory(tmp_path / "out")
    path = tmp_path / "cases.bundle"
    found = export(folder, Small().reopen(folder.plan, folder.path), path, ["toys:WRONG", "toys:EXACT@number=2"])
    assert found.cases == 12 and found.nbytes == path.stat().st_size
    return path


def test_a_bundle_runs_elsewhere_and_what_it_found_comes_back(packed: Path, tmp_path: Path) -> None:
    assert is_bundle(packed)
    plan, text = plan_of(packed)
    assert list(plan.platforms) == ["toys:WRONG", "toys:EXACT@number=2"] and plan.reference == "toys:EXACT"
    home = Small().reopen(plan, tmp_path / "out").block(0)
    assert BundleSource(packed).block(0) == home and BundleSource(packed).block(1) == []
    there = begin(plan, text, tmp_path / "far", BundleSourceFactory(packed), where="far", options=RunOptions(jobs=2))
    assert there.totals.words == {"discrepant": 4, "identical": 20}
    assert re.fullmatch(r"campaign-[0-9a-f]{16}-far-[0-9a-f]{8}", there.run)
    assert agreement(open_directory(tmp_path / "far")) == there.agreement == (12, 12)
    printed = io.StringIO()
    print_status(there, printed)
    assert (
        "the reference gave the same bits here and where the bundle was made for 12 of 12 cases" in printed.getvalue()
    )
    # It goes on by itself: the folder has its own copy.
    packed.unlink()
    assert (
        resume_campaign(tmp_path / "far", BundleSourceFactory(packed), options=RunOptions(jobs=1)).totals
        == there.totals
    )
    folder = open_directory(tmp_path / "out")
    assert agreement(folder) is None
    first = import_results(folder, [tmp_path / "far"])
    assert first.segments > 0 and first.graphs == 4
    assert import_results(folder, [tmp_path / "far"]).segments == 0
    store = Store(tmp_path / "out")
    assert there.run in runs(store) and len(runs(store)) == 2
    assert report_of(store, there.run).totals == there.totals
    # The rows at home are what they were.
    assert report_of(store, folder.run).totals.words == {"identical": 8, "unsupported": 4}


@pytest.mark.nightly
def test_single_segments_come_back_too(packed: Path, tmp_path: Path) -> None:
    plan, text = plan_of(packed)
    there = begin(plan, text, tmp_path / "far", BundleSourceFactory(packed), where="far", options=RunOptions(jobs=2))
    segments = sorted((tmp_path / "far/tables").rglob("*.parquet"))
    assert import_results(open_directory(tmp_path / "out"), segments).segments == len(segments)
    assert report_of(Store(tmp_path / "out"), there.run).totals == there.totals
    (tmp_path / "other.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(BundleError, match=r"other\.parquet is no segment of a store"):
        import_results(open_directory(tmp_path / "out"), [tmp_path / "other.parquet"])
    with pytest.raises(MindgapError, match="is no store"):
        import_results(open_directory(tmp_path / "out"), [tmp_path / "nothing"])


@pytest.mark.nightly
def test_a_machine_of_the_same_name_with_another_reference_has_a_run_of_its_own(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, text = plan_of(packed)
    source = BundleSourceFactory(packed)
    options = RunOptions(jobs=1, store_url=str(tmp_path / "shared"))
    one = begin(plan, text, tmp_path / "one", source, where="box", options=options)
    monkeypatch.setenv("TOY_VERSION", "2")
    with pytest.raises(MindgapError, match=r"-box-.* is of another machine: its reference toys:EXACT differs"):
        resume_campaign(tmp_path / "one", source, options=RunOptions(jobs=1))
    other = begin(plan, text, tmp_path / "other", source, where="box", options=options)
    assert one.run != other.run and one.totals.rows == other.totals.rows == 24


def test_a_run_of_a_bundle_has_one_reference(tmp_path: Path) -> None:
    """The short form of the one above, whose names tell machines apart."""
    store = Store(tmp_path)
    store.append("platforms", {"run": "r", "platform": "toys:EXACT", "fingerprint": "0" * 32})
    pool: Any = SimpleNamespace(describe=lambda platform: {"toy": "of another version"})
    plan = SimpleNamespace(reference=parse("toys:EXACT"))
    said: list[str] = []
    options = RunOptions(notify=said.append)
    bundled: Any = SimpleNamespace(run="r", plan=plan, bundle=Path("pack.zip"))
    with pytest.raises(MindgapError, match=r"^the run r of .* is of another machine: its reference toys:EXACT differs"):
        check_changes(store, bundled, pool, [parse("toys:EXACT")], options)
    bundled.bundle = None
    check_changes(store, bundled, pool, [parse("toys:EXACT")], options)
    assert len(said) == 1 and said[0].startswith("CHANGED since the campaign began")


def test_equal_campaigns_make_equal_bundles(packed: Path, tmp_path: Path) -> None:
    folder = open_directory(tmp_path / "out")
    again = tmp_path / "again.bundle"
    export(folder, Small().reopen(folder.plan, folder.path), again, ["toys:WRONG", "toys:EXACT@number=2"])
    assert again.read_bytes() == packed.read_bytes()


def test_a_damaged_bundle_is_named(packed: Path, tmp_path: Path) -> None:
    whole = packed.read_bytes()
    cut = tmp_path / "cut.bundle"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BundleError, match=r"cut\.bundle is no bundle, or damaged"):
        BundleSource(cut)
    with zipfile.ZipFile(packed) as file:
        members = {name: file.read(name) for name in file.namelist()}
    swapped = json.loads(members["blocks/00000.json"])
    swapped[0]["digest"], swapped[1]["digest"] = swapped[1]["digest"], swapped[0]["digest"]
    for name, data, said in (
        ("blocks/00000.graphs", members["blocks/00000.graphs"][:-1] + b"?", "damaged at blocks/00000.graphs"),
        ("mindgap-pack.json", members["mindgap-pack.json"].replace(b'"version": 1', b'"version": 7'), "of version 7"),
        ("mindgap-pack.json", b"{}", "is no bundle"),
    ):
        other = _rewritten(tmp_path / "other.bundle", {**members, name: data})
        with pytest.raises(BundleError, match=said):
            BundleSource(other).block(0)
    other = _rewritten(tmp_path / "other.bundle", {**members, "campaign.toml": b"seed = 1"})
    with pytest.raises(BundleError, match=r"damaged at campaign\.toml"):
        plan_of(other)


def test_nothing_ran_nothing_to_export(tmp_path: Path, campaign: Campaign) -> None:
    with pytest.raises(MindgapError, match="holds no campaign"):
        open_directory(tmp_path)
    campaign(3, "toys:SLOW", stop="minutes = 0.000001")
    folder = open_directory(tmp_path / "out")
    with pytest.raises(BundleError, match="nothing has run yet"):
        export(folder, Small().reopen(folder.plan, folder.path), tmp_path / "x.bundle")


def _rewritten(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path
