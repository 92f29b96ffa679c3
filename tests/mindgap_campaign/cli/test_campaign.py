"""`mindgap campaign` as a user meets it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from cli.command_line import mindgap
from mindgap_campaign.campaign.state.session_file import published
from mindgap_campaign.campaign.state.steps import StepTracker

TOYS = Path(__file__).parent.parent / "campaign"
sys.path.insert(0, str(TOYS))


@pytest.fixture(autouse=True)
def toys_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TOYS), prepend=os.pathsep)


PLAN = """\
seed = 7
catalogue = "nowhere"
[variants]
count = 20
[platforms]
"cpu/jit" = {}
"""


@pytest.mark.nightly
def test_a_bad_plan_is_one_line_with_its_line(tmp_path: Path) -> None:
    for text, said in (
        (PLAN.replace("count", "counts"), "plan.toml:4: variants.counts: there is no such key; known are count, sizes"),
        (PLAN.replace("cpu/jit", "cpu/jet"), 'plan.toml:6: platforms."cpu/jet": '),
        (PLAN.replace("cpu/jit", "cuda/eager"), "platform cuda/eager is not available here"),
        (PLAN, "nowhere"),
    ):
        (tmp_path / "plan.toml").write_text(text)
        ran = mindgap("campaign", "run", "plan.toml", "--out", "out", cwd=tmp_path)
        assert ran.status == 2 and ran.out == ""
        *steps, line = ran.err.splitlines()
        assert line.startswith("mindgap: ") and said in line
        # What is wrong with the plan itself is seen before anything is begun.
        assert (not steps) == ("plan.toml" in said or "platforms." in said)


def test_what_is_no_campaign(tmp_path: Path) -> None:
    for command in ("resume", "status"):
        ran = mindgap("campaign", command, "nothing", cwd=tmp_path)
        assert ran.status == 2 and "nothing holds no campaign (`mindgap campaign run PLAN --out nothing`" in ran.err


@pytest.mark.nightly
def test_a_bundle_is_run_looked_at_resumed_and_taken_back(tmp_path: Path) -> None:
    from small_source import Small, plan_text

    from mindgap_campaign.campaign.plan import parse_plan
    from mindgap_campaign.campaign.session import RunOptions, begin
    from mindgap_campaign.campaign.state.bundle_transfer import export
    from mindgap_campaign.campaign.state.directory import open_directory

    text = plan_text(9, {"toys:EXACT@number=2": ""}, top='reference = "toys:EXACT"')
    begin(parse_plan(text, "p"), text, tmp_path / "home-run", Small(), options=RunOptions(jobs=1))
    folder = open_directory(tmp_path / "home-run")
    export(folder, Small().reopen(folder.plan, folder.path), tmp_path / "cases.bundle", ["toys:PICKY", "toys:REFUSES"])

    ran = mindgap("campaign", "run", "cases.bundle", "--out", "far", "--no-support", "--json", cwd=tmp_path)
    # A platform that refuses everything is an error, said beside the figures.
    assert ran.status == 2
    assert "NOTHING RAN on toys:REFUSES: it refused every one of 9 cases" in ran.err
    found = json.loads(ran.out)
    assert found["totals"]["words"] == {"identical": 6, "unsupported": 12} and found["state"] == "finished"
    assert found["nothing"] and "9/9 cases" in ran.err

    ran = mindgap("campaign", "status", "far", cwd=tmp_path)
    assert ran.status == 0 and "9 of 9 cases on toys:EXACT (9 ok); 18 rows, 0 findings" in ran.out
    ran = mindgap("campaign", "resume", "far", cwd=tmp_path)
    assert ran.status == 2 and "18 rows" in ran.out
    ran = mindgap("campaign", "import", "home-run", "far", cwd=tmp_path)
    assert ran.status == 0 and "segments" in ran.out
    ran = mindgap("campaign", "merge", "home-run", "far", cwd=tmp_path)
    assert ran.status == 2 and "far is another campaign" in ran.err


@pytest.mark.nightly
def test_findings_and_a_case_to_run(tmp_path: Path) -> None:
    from small_source import Small, plan_text

    from mindgap_campaign.campaign.plan import parse_plan
    from mindgap_campaign.campaign.session import RunOptions, begin

    toys = {"toys:WRONG": "", "toys:EXACT@number=2": ""}
    text = plan_text(6, toys, top='reference = "toys:EXACT"', limits="judge_s = 200")
    begin(parse_plan(text, "p"), text, tmp_path / "out", Small(), options=RunOptions(jobs=1))

    ran = mindgap("campaign", "findings", "out", cwd=tmp_path)
    assert ran.status == 1 and "aten.exp.default" in ran.out and "2 findings in 1 groups" in ran.out
    ran = mindgap("campaign", "findings", "out", "--json", "--word", "discrepant", cwd=tmp_path)
    assert ran.status == 1 and json.loads(ran.out)[0]["cases"] == ["v000000", "v000003"]
    ran = mindgap("campaign", "findings", "out", "-p", "toys:EXACT@number=2", cwd=tmp_path)
    assert ran.status == 0 and ran.out == "NO FINDING in out on toys:EXACT@number=2\n"

    # The worst row of the case, though another platform comes first by name.
    ran = mindgap("campaign", "show", "out", "v000003", cwd=tmp_path)
    assert ran.status == 0 and "discrepant" in ran.out and "identical" in ran.out
    command = ran.out.splitlines()[-1]
    assert command == "mindgap diff v000003.mindgap -p toys:WRONG --reference toys:EXACT --deadline 60"
    assert "no short script of v000003 on toys:WRONG" in ran.err
    again = mindgap(*command.split()[1:], cwd=tmp_path)
    assert again.status == 1 and "aten.exp.default" in again.out
    (tmp_path / "made").mkdir()
    ran = mindgap("campaign", "show", "out", "v000003", "-o", "made/case.mindgap", "--node", "1", cwd=tmp_path)
    assert (
        ran.status == 0 and (tmp_path / "made" / "case.mindgap").exists() and not (tmp_path / "made/case.py").exists()
    )
    assert mindgap(*ran.out.splitlines()[-1].split()[1:], cwd=tmp_path).status == 0, (
        "the node after the culprit is right"
    )
    ran = mindgap("campaign", "show", "out", "v000042", cwd=tmp_path)
    assert ran.status == 2 and "no row of a case v000042" in ran.err


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_second_reduction_knows_the_causes_of_the_first(tmp_path: Path) -> None:
    from small_source import Small, plan_text

    from mindgap.findings.causes import read_causes
    from mindgap_campaign.campaign.plan import parse_plan
    from mindgap_campaign.campaign.session import RunOptions, begin

    (tmp_path / "faults.toml").write_text('[[fault]]\nkind = "scaled"\nfactor = 1.5\nwhen = { op = "aten.exp*" }\n')
    platform = f"faulty/eager@faults={tmp_path / 'faults.toml'}"
    text = plan_text(3, {platform: ""}, top='reference = "cpu/eager"', limits="judge_s = 200")
    begin(parse_plan(text, "p"), text, tmp_path / "out", Small(), options=RunOptions(jobs=1))
    command = ("campaign", "reduce", "out", "--out", "found", "--ledger", "known.toml")
    ran = mindgap(*command, "--update-ledger", "--sarif", "found.sarif", cwd=tmp_path)
    assert ran.status == 1 and "1 causes, 1 new in 1 groups" in ran.out, ran.err
    (cause,) = read_causes(tmp_path / "found" / "causes.json")
    assert (cause.state, cause.rows, cause.cases, cause.damage) == ("new", 1, ("v000000",), "values")
    assert f"| {cause.severity} | new |" in (tmp_path / "found" / "index.md").read_text()
    (run,) = json.loads((tmp_path / "found.sarif").read_text())["runs"]
    assert [result["partialFingerprints"]["mindgapCause/v1"] for result in run["results"]] == [cause.id]

    ledger = tmp_path / "known.toml"
    lost = '[[issue]]\nnote = "lost"\nmatch = { platform = "faulty/*", operators = ["tanh"] }\n'
    ledger.write_text(ledger.read_text() + lost)
    ran = mindgap(*command, cwd=tmp_path)
    assert ran.status == 1 and "1 causes, 1 known in 1 groups" in ran.out, ran.err
    assert "gone: nothing that was found fits the issue lost" in ran.err


@pytest.mark.nightly
def test_a_log_says_from_the_start_what_is_being_done(tmp_path: Path) -> None:
    from small_source import Small, plan_text

    from mindgap_campaign.campaign.plan import parse_plan
    from mindgap_campaign.campaign.session import RunOptions, begin
    from mindgap_campaign.campaign.state.bundle_transfer import export
    from mindgap_campaign.campaign.state.directory import open_directory

    text = plan_text(6, {"toys:EXACT@number=2": ""}, top='reference = "toys:EXACT"')
    begin(parse_plan(text, "p"), text, tmp_path / "home-run", Small(), options=RunOptions(jobs=1))
    folder = open_directory(tmp_path / "home-run")
    export(folder, Small().reopen(folder.plan, folder.path), tmp_path / "cases.bundle", ["toys:PICKY"])

    ran = mindgap("campaign", "run", "cases.bundle", "--out", "far", "--coverage-minutes", "2", cwd=tmp_path)
    lines = ran.err.splitlines()
    assert ran.status == 0 and lines[0] == "mindgap: importing PyTorch"
    assert any(
        "asking toys:PICKY which operators they run, for at most 2 min of processor time each" in n for n in lines
    )
    assert any("toys:PICKY: of 4 calls in the cases" in line and "it refuses 1" in line for line in lines)
    # Two of six hold what the only platform lacks, and run nowhere.
    assert "4/6 cases" in ran.err and "unsupported" not in ran.out and "aten.neg.default: not in this toy" in ran.out
    assert (tmp_path / "home/support").is_dir()

    ran = mindgap("campaign", "run", "cases.bundle", "--out", "knows", "--no-coverage", cwd=tmp_path)
    assert ran.status == 0 and "asking" not in ran.err and "unsupported" not in ran.out
    ran = mindgap("campaign", "run", "cases.bundle", "--out", "runs", "--no-support", cwd=tmp_path)
    assert ran.status == 0 and "asking" not in ran.err and "unsupported" in ran.out

    # What `status` says of a session that is still making its cases.
    (tmp_path / "early").mkdir()
    with published(tmp_path / "early", steps := StepTracker()):
        steps.step("making a pool", 15_000)
        ran = mindgap("campaign", "status", "early", cwd=tmp_path)
        assert ran.status == 0 and ran.out.startswith("running for 0:00:") and f"process {os.getpid()} on " in ran.out
        ran = mindgap("campaign", "status", "early", "--json", cwd=tmp_path)
        content = json.loads(ran.out)
        assert (
            content["state"] == "running"
            and content["running"]["pid"] == os.getpid()
            and content["running"]["cases"] is None
        )
    ran = mindgap("campaign", "status", "early", cwd=tmp_path)
    assert ran.status == 2 and "holds no campaign" in ran.err
