"""Findings listed, and rows made into scripts: kept graphs, graphs made again from the pool, graphs in a bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_source import Small

from mindgap.aten.tensors import to_numpy
from mindgap.graph import MindgapError
from mindgap.graph.compare.digest import digest_array
from mindgap.models.catalogue import Catalogue, build
from mindgap.workflows.campaign.cases.bundle import BundleSourceFactory, plan_of
from mindgap.workflows.campaign.plan import parse_plan
from mindgap.workflows.campaign.results import findings as found
from mindgap.workflows.campaign.results.script import script_of
from mindgap.workflows.campaign.session import RunOptions, begin
from mindgap.workflows.campaign.state.bundle_transfer import export
from mindgap.workflows.campaign.state.directory import CampaignDirectory, open_directory
from mindgap.workflows.campaign.variant_source_factory import VariantSourceFactory

Campaign = Callable[..., Any]


def ran(folder: CampaignDirectory, row: Any, tmp_path: Path) -> tuple[dict[str, Any], list[str]]:
    """The record of the row's script and the digests of what eager gave in it, run without mindgap."""
    blocked = tmp_path / "blocked" / "mindgap"
    blocked.mkdir(parents=True, exist_ok=True)
    (blocked / "__init__.py").write_text("raise ImportError('mindgap')\n")
    file = tmp_path / "case.py"
    file.write_text(script_of(folder, row).text)
    done = subprocess.run(
        [sys.executable, str(file), "--json", "--save", str(tmp_path / "out.pt")],
        env={**os.environ, "PYTHONPATH": str(blocked.parent)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    saved = torch.load(tmp_path / "out.pt", weights_only=True)
    return json.loads(done.stdout.splitlines()[-1]), [digest_array(to_numpy(tensor)) for tensor in saved["eager"]]


def test_findings_are_grouped_as_they_are_counted(campaign: Campaign, tmp_path: Path) -> None:
    stands = campaign(12, "toys:WRONG", "toys:FAILS", "toys:EXACT@number=2", limits="judge_s = 200")
    folder = open_directory(tmp_path / "out")
    groups = found.findings_of(folder)
    assert len(groups) == stands.found and sum(group.count for group in groups) == stands.totals.findings
    assert {group.platform for group in groups} == {"toys:WRONG", "toys:FAILS"}
    [wrong] = found.findings_of(folder, ["discrepant"], "toys:WRONG")
    assert wrong.culprit == "aten.exp.default" and wrong.count == 4 and wrong.case == wrong.cases[0] == "v000000"
    assert json.loads(found.as_json([wrong]))[0]["cases"] == list(wrong.cases)
    assert found.findings_of(folder, ["structural"]) == []
    for words, platform, said in ((["wrong"], "", "takes one of failed"), ([], "toys:NONE", "toys:EXACT@number=2")):
        with pytest.raises(MindgapError, match=said):
            found.findings_of(folder, words, platform)
    with pytest.raises(MindgapError, match="no row of a case v9"):
        found.rows_of_case(folder, "v9")
    with pytest.raises(MindgapError, match="it has some on toys:EXACT@number=2, toys:FAILS, toys:WRONG"):
        found.rows_of_case(folder, "v000000", "cpu/jit")


def test_a_finding_is_a_script(campaign: Campaign, tmp_path: Path) -> None:
    campaign(3, "toys:WRONG", limits="judge_s = 200")
    folder = open_directory(tmp_path / "out")
    [row] = found.rows_of_case(folder, "v000000")
    record, _ = ran(folder, row, tmp_path)
    assert record["inputs_ok"] and record["graph"] == row["graph"]
    assert record["recorded"]["word"] == "discrepant" and record["recorded"]["culprit_op"] == "aten.exp.default"
    # Toys are no platform that a script could run.
    assert record["status"]["platform"]["status"] == "not_run"
    text = script_of(folder, row).text
    assert "knows no way to run toys:EXACT: cpu/eager stands in its place" in text
    assert "class Culprit" in text and "aten.exp.default (node 0), blamed on the platform" in text
    assert "def forward(self, v2):" in script_of(folder, row, node=2).text.partition("class Culprit")[2]
    with pytest.raises(MindgapError, match="--node 3: case v000000 has nodes 0 to 2"):
        script_of(folder, row, node=3)
    # Nothing was found in this one, and toys have no description that a graph could be made from.
    [calm] = found.rows_of_case(folder, "v000001")
    with pytest.raises(MindgapError, match="graph of case v000001 is not kept"):
        script_of(folder, calm)


def test_a_case_of_a_bundle(campaign: Campaign, tmp_path: Path) -> None:
    campaign(6, "toys:EXACT@number=2")
    home = open_directory(tmp_path / "out")
    export(home, Small().reopen(home.plan, home.path), tmp_path / "cases.bundle")
    plan, text = plan_of(tmp_path / "cases.bundle")
    begin(
        plan,
        text,
        tmp_path / "far",
        BundleSourceFactory(tmp_path / "cases.bundle"),
        where="there",
        options=RunOptions(jobs=1),
    )
    folder = open_directory(tmp_path / "far")
    [row] = found.rows_of_case(folder, "v000004")
    assert row["word"] == "identical"
    record, _ = ran(folder, row, tmp_path)
    assert record["inputs_ok"] and record["graph"] == row["graph"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("expecttest")
    where = tmp_path_factory.mktemp("samples")
    build(Catalogue(where, create=True), ["ops:tanh", "ops:cumsum"], ("forward", "backward"))
    return where


PLAN = """\
seed = 3
catalogue = "{catalogue}"
[variants]
count = 4
sizes = [ {{nodes = 6, share = 1.0}} ]
[platforms]
"cpu/jit" = {{}}
"""


@pytest.mark.nightly
def test_calm_rows_are_made_again_from_the_pool(samples: Path, tmp_path: Path) -> None:
    text = PLAN.format(catalogue=samples)
    begin(parse_plan(text, "plan"), text, tmp_path / "out", VariantSourceFactory(1), options=RunOptions(jobs=1))
    folder = open_directory(tmp_path / "out")
    assert not list((tmp_path / "out" / "graphs").rglob("*.graph")), "a graph was kept: nothing is made again"
    for case in ("v000000", "v000003"):
        [row] = found.rows_of_case(folder, case)
        assert row["word"] == "identical"
        record, digests = ran(folder, row, tmp_path)
        assert record["inputs_ok"] and record["matches_recorded"] == {"eager": True, "platform": True}
        assert digests == [output["digest"] for output in found.reference_of(folder, row)["outputs"]]
        assert record["exit"] == 0 and not record["differs"]
