"""`mindgap diff` end to end, on platforms that are real."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import MODELS, Ran, mindgap

FAULTY = "faulty/eager@faults=faults.toml"
FAULTS = """
[[fault]]
kind = "scaled"
factor = 1.5
when = { op = "aten.gelu*" }
"""
REFUSAL = """
[[fault]]
kind = "refusal"
when = { op = "aten.gelu*" }
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


@pytest.mark.nightly
def test_json_is_all_that_standard_output_holds(models: Path) -> None:
    ran = mindgap("diff", "models.py:calm", "-p", "cpu/eager@isa=avx2", "-p", "cpu/jit", "--json", cwd=models)
    assert ran.status == 0, ran.err
    data = json.loads(ran.out)
    assert "a library that prints" in ran.err
    assert [row["platform"] for row in data["rows"]] == ["cpu/eager@isa=avx2", "cpu/jit"]
    assert all(row["verdict"] in ("identical", "rounding") for row in data["rows"])
    assert data["totals"]["rows"] == 2 and data["totals"]["findings"] == 0 and data["nothing"] is None
    assert data["models"][0]["classes"][0][0] == "cpu/eager"


@pytest.mark.nightly
def test_a_source_with_several_models_gives_a_row_for_each(models: Path) -> None:
    ran = mindgap("diff", "models.py:two", "-p", "cpu/jit", "--json", "--no-trace", cwd=models)
    assert ran.status == 0, ran.err
    assert len({row["model"] for row in json.loads(ran.out)["rows"]}) == 2


def test_a_source_that_cannot_be_captured_is_refused_and_the_others_go_on(models: Path) -> None:
    ran = mindgap("diff", "models.py:calm", "models.py:broken", "absent.py:make", "-p", "cpu/jit", "--json", cwd=models)
    data = json.loads(ran.out)
    assert ran.status == 2
    assert len(data["rows"]) == 1 and len(data["refused"]) == 2
    assert [line for line in ran.err.splitlines() if "refused" in line] == [
        "mindgap: refused: " + each for each in (
            f"models:broken: {data['refused'][0]['reason']}", "absent.py:make: absent.py: no such file"
        )
    ]  # fmt: skip


def test_people_get_a_table(models: Path) -> None:
    ran = mindgap("diff", "models.py:calm", "-p", "cpu/jit", cwd=models)
    assert ran.status == 0, ran.err
    assert "cpu/jit" in ran.out and "1 model × 1 platform against cpu/eager" in ran.out
    assert "{" not in ran.out


@pytest.mark.nightly
def test_pages_are_written_and_made_again_from_json(models: Path) -> None:
    wanted = ("--html", "page.html", "--junit", "junit.xml", "--json")
    ran = mindgap("diff", "models.py:calm", "-p", "cpu/jit", *wanted, cwd=models)
    assert ran.status == 0, ran.err
    assert ET.parse(models / "junit.xml").getroot().get("tests") == "1"
    (models / "report.json").write_text(ran.out)
    again = mindgap("report", "report.json", "-o", "again.html", cwd=models)
    assert again.status == 0, again.err
    assert (models / "again.html").read_text() == (models / "page.html").read_text()


@pytest.mark.nightly
def test_a_captured_graph_runs_like_its_model(models: Path) -> None:
    captured = mindgap("capture", "models.py:calm", "-o", "calm.graph", "--json", cwd=models)
    assert captured.status == 0, captured.err
    (about,) = json.loads(captured.out)
    assert about["nodes"] == 2 and about["bytes"] == (models / "calm.graph").stat().st_size
    ran = mindgap("diff", "graph:calm.graph", "-p", "cpu/jit", "--json", cwd=models)
    assert ran.status == 0, ran.err
    assert json.loads(ran.out)["models"][0]["digest"] == about["digest"]


@pytest.mark.nightly
def test_a_finding_fails_until_the_baseline_knows_it(models: Path) -> None:
    (models / "faults.toml").write_text(FAULTS)

    def diff(*more: str) -> tuple[Ran, dict[str, Any]]:
        ran = mindgap("diff", "models.py:calm", "-p", FAULTY, "--json", *more, cwd=models)
        return ran, json.loads(ran.out)

    ran, data = diff("--junit", "junit.xml")
    (row,) = data["rows"]
    assert ran.status == 1, ran.err
    assert row["verdict"] == "discrepant" and row["blame"] == "platform", row
    assert row["culprit"]["op"] == "aten.gelu.default" and row["culprit"]["label"]
    assert ET.parse(models / "junit.xml").getroot().get("failures") == "1"

    assert diff("--baseline", "known.json", "--update-baseline")[0].status == 0
    ran, data = diff("--baseline", "known.json")
    assert ran.status == 0 and data["totals"]["known"] == 1 and data["rows"][0]["known"]

    (models / "faults.toml").write_text(FAULTS.replace("gelu", "linear"))
    ran, data = diff("--baseline", "known.json")
    assert ran.status == 1 and data["rows"][0]["culprit"]["op"] == "aten.linear.default"
    assert "no longer found" in ran.err


@pytest.mark.nightly
def test_a_new_fault_beside_a_known_one_fails(models: Path) -> None:
    (models / "faults.toml").write_text(FAULTS)

    def diff(*more: str) -> tuple[Ran, dict[str, Any]]:
        ran = mindgap("diff", "models.py:calm", "-p", FAULTY, "--json", "--baseline", "known.json", *more, cwd=models)
        return ran, json.loads(ran.out)

    assert diff("--update-baseline")[0].status == 0
    (models / "faults.toml").write_text(FAULTS + FAULTS.replace("gelu", "linear"))
    ran, data = diff("--junit", "junit.xml", "--sarif", "found.sarif", "--html", "page.html", "--store", "found")
    assert ran.status == 1, ran.err
    (row,) = data["rows"]
    assert {each["culprit"]["op"]: each["known"] for each in row["faults"]} == {
        "aten.linear.default": False, "aten.gelu.default": True,
    }  # fmt: skip
    assert row["culprit"] == row["faults"][0]["culprit"] and not row["known"] and "no longer found" not in ran.err
    assert (data["totals"]["findings"], data["totals"]["faults"], data["totals"]["new_faults"]) == (1, 2, 1)
    root = ET.parse(models / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("2", "1", "1")
    results = json.loads((models / "found.sarif").read_text())["runs"][0]["results"]
    assert sorted(len(each.get("suppressions", ())) for each in results) == [0, 1]
    assert len({json.dumps(each["locations"]) for each in results}) == 2, "each is at the line of its operator"
    made = mindgap("report", "found", "-o", "again.html", cwd=models)
    assert made.status == 0, made.err
    assert all("fault 2 of 2" in (models / name).read_text() for name in ("page.html", "again.html"))


@pytest.mark.nightly
def test_what_is_unsupported_everywhere_compares_nothing_and_is_wrong_use(models: Path) -> None:
    (models / "faults.toml").write_text(REFUSAL)
    ran = mindgap("diff", "models.py:calm", "-p", FAULTY, "--json", "--junit", "junit.xml", cwd=models)
    data = json.loads(ran.out)
    assert ran.status == 2, ran.err
    assert ET.parse(models / "junit.xml").getroot().get("errors") == "1"
    assert data["rows"][0]["verdict"] is None and data["rows"][0]["status"] == "unsupported"
    assert "NOTHING WAS COMPARED: every row is unsupported" in ran.err and data["nothing"]
    assert mindgap("diff", "models.py:calm", "-p", FAULTY, "--require-support", cwd=models).status == 1


@pytest.mark.nightly
def test_a_store_gives_the_same_page_as_the_run(models: Path) -> None:
    wanted = ("--store", "found", "--html", "page.html", "--json")
    ran = mindgap("diff", "models.py:calm", "-p", "cpu/jit", *wanted, cwd=models)
    assert ran.status == 0, ran.err
    made = mindgap("report", "found", "-o", "again.html", cwd=models)
    assert made.status == 0, made.err
    assert (models / "again.html").read_text() == (models / "page.html").read_text()
    none = mindgap("report", ".", "-o", "none.html", cwd=models)
    assert none.status == 2 and "is no store" in none.err and not (models / "none.html").exists()
    none = mindgap("diff", "models.py:calm", "-p", "cpu/jit", "--store", ".", cwd=models)
    assert none.status == 2 and "no store and not empty" in none.err and len(none.err.splitlines()) == 1


@pytest.mark.nightly
def test_an_internal_result_is_calm_unless_asked_for(models: Path) -> None:
    (models / "saved.py").write_text(
        "import torch\n\n\ndef normalised():\n"
        "    class Saves(torch.nn.Module):\n"
        "        def forward(self, x):\n"
        "            return torch.native_layer_norm(x, (8,), None, None, 1e-5)\n\n"
        "    return Saves(), (torch.randn(4, 8, generator=torch.Generator().manual_seed(0)),)\n"
    )
    fault = '[[fault]]\nkind = "scaled"\nfactor = 1.5\noutput = 2\nwhen = { op = "aten.native_layer_norm*" }\n'
    (models / "faults.toml").write_text(fault)
    junit = models / "junit.xml"
    given = ("diff", "saved.py:normalised", "-p", FAULTY, "--json")
    ran = mindgap(*given, "--junit", str(junit), cwd=models)
    assert ran.status == 0, ran.err
    (row,) = json.loads(ran.out)["rows"]
    assert row["verdict"] == "internal"
    assert [each["verdict"] for each in row["outputs"]] == ["identical", "identical", "internal"]
    assert json.loads(ran.out)["totals"]["words"] == {"internal": 1}
    assert ET.parse(junit).getroot().get("failures") == "0"
    asked = mindgap(*given, "--internal", cwd=models)
    assert asked.status == 1, asked.err
    (row,) = json.loads(asked.out)["rows"]
    assert row["verdict"] == "discrepant" and row["culprit"]["op"] == "aten.native_layer_norm.default"
