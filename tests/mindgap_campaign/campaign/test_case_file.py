"""Findings listed, and rows made into model files and run: graphs kept, made again from the pool, and in a bundle."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_source import Small

from mindgap.findings.reduction.model_file import write_case
from mindgap.graph import Graph, Input, MindgapError, Node, Ref, TensorSpec, Uniform, default_tensor_store
from mindgap.results.report_json import decode_report
from mindgap_campaign.campaign.cases.bundle import BundleSourceFactory, plan_of
from mindgap_campaign.campaign.plan import parse_plan
from mindgap_campaign.campaign.results import findings as found
from mindgap_campaign.campaign.results.case_file import command_of, graph_of, node_alone, script_of
from mindgap_campaign.campaign.session import RunOptions, begin
from mindgap_campaign.campaign.state.bundle_transfer import export
from mindgap_campaign.campaign.state.directory import CampaignDirectory, open_directory
from mindgap_campaign.campaign.variant_source_factory import VariantSourceFactory
from mindgap_campaign.catalogue import Catalogue, build

Campaign = Callable[..., Any]


def run(folder: CampaignDirectory, row: Any, tmp_path: Path, node: int | None = None) -> Any:
    """The row that `mindgap diff` makes of the row's file with the command that is printed for it."""
    tensors = default_tensor_store()
    graph = graph_of(folder, row)
    file = tmp_path / "case.mindgap"
    write_case(file, row["model"], graph if node is None else node_alone(graph, node, tensors), tensors)
    command = [sys.executable, "-m", "mindgap", "diff", str(file), *command_of(folder, row), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = decode_report(done.stdout)
    assert node is not None or report.models[0].digest == row["graph"]
    return report.rows[0]


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_the_file_and_the_command_reproduce_a_row(campaign: Campaign, tmp_path: Path) -> None:
    campaign(3, "toys:WRONG", limits="judge_s = 200")
    folder = open_directory(tmp_path / "out")
    [row] = found.rows_of_case(folder, "v000000")
    again = run(folder, row, tmp_path)
    assert (again.word, again.culprit.op, again.blame) == ("discrepant", "aten.exp.default", "platform")
    assert (again.word, again.culprit.op, again.culprit.node, again.blame) == (
        row["word"], row["culprit_op"], row["culprit_node"], row["blame"],
    )  # fmt: skip
    assert run(folder, row, tmp_path, node=0).word == "discrepant"
    assert run(folder, row, tmp_path, node=2).word == "identical", "relu on right operands"
    graph = graph_of(folder, row)
    with pytest.raises(MindgapError, match="--node 3: the case has nodes 0 to 2"):
        node_alone(graph, 3, default_tensor_store())
    made = script_of(folder, row, graph, default_tensor_store())
    assert made.text == "" and "the reference here is toys:EXACT" in made.reason
    # Nothing was found in this one, and toys have no description that a graph could be made from.
    [calm] = found.rows_of_case(folder, "v000001")
    assert "the row is identical" in script_of(folder, calm, graph, default_tensor_store()).reason
    with pytest.raises(MindgapError, match="graph of case v000001 is not kept"):
        graph_of(folder, calm)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_case_gets_the_short_script_that_shows_it(campaign: Campaign, tmp_path: Path) -> None:
    """ONNX Runtime computes `remainder` by a formula that loses it for large quotients."""
    pytest.importorskip("onnxruntime")
    spec = TensorSpec.contiguous("float32", (6, 5))
    nodes = (
        Node("aten.remainder.Scalar", (Ref(0), 3.7e-8), (), (spec,)),
        Node("aten.neg.default", (Ref(1),), (), (spec,)),
    )
    graph = Graph((Input(spec, Uniform(0)),), nodes, (2,))
    options = RunOptions(jobs=1)
    campaign(1, "onnxruntime/cpu", source=Small((graph,)), top="", limits="judge_s = 200", options=options)
    folder = open_directory(tmp_path / "out")
    [row] = found.rows_of_case(folder, "v000000")
    assert row["word"] == "discrepant" and row["culprit_op"] == "aten.remainder.Scalar"
    made = script_of(folder, row, graph_of(folder, row), default_tensor_store())
    assert made.verified and "torch.remainder(" in made.text and "mindgap" not in made.text, made
    again = run(folder, row, tmp_path)
    assert (again.word, again.culprit.op) == (row["word"], row["culprit_op"])


@pytest.mark.nightly
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
    assert run(folder, row, tmp_path).word == "identical"


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
        again = run(folder, row, tmp_path)
        assert again.word == "identical"
        of_reference = "SELECT outputs FROM outcomes WHERE run = ? AND model = ? AND platform = ?"
        (reference,) = folder.store.rows(of_reference, [row["run"], row["model"], row["reference"]])
        assert list(again.digests) == [output["digest"] for output in reference["outputs"]]
