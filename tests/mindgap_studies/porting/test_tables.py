"""Tables, statements, page and command of a portability study."""

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from mindgap.cli import main
from mindgap.graph import MindgapError
from mindgap_studies.porting import tables
from mindgap_studies.porting.claims import check_claims
from mindgap_studies.porting.repeated import compare_studies
from mindgap_studies.report.porting_page import porting_page
from mindgap_studies.results.ported_functions import FunctionCell, PortingStudy, SampleResult, StudyFile
from mindgap_surveys.report.study_page import study_page, times
from mindgap_surveys.table import records
from porting.ported_study import latency, ported_study


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The study in a file."""
    study, path = ported_study(), tmp_path / "study.jsonl"
    file = StudyFile(path)
    written = file.begin(study.settings, study.machine)
    for record in (*study.draws.values(), *study.cells.values()):
        file.add(written, record)
    return path


def test_classes_count_each_function_once() -> None:
    graph, xla, cuda = records(tables.classes(ported_study()))
    assert (xla["functions"], xla["success"], xla["partial_failure"], xla["complete_failure"]) == (9, 6, 2, 1)
    assert xla["not_compared"] == 1 and xla["lost_share"] == pytest.approx(3 / 9)
    assert xla["lost_low_share"] < 3 / 9 < xla["lost_high_share"]
    assert graph["lost_share"] == 0 and graph["functions"] == 10
    assert cuda["not_available"] == "TensorFlow is built without CUDA" and cuda["functions"] is None


def test_a_function_is_lost_to_its_most_frequent_reason() -> None:
    (xla,) = [row for row in records(tables.reasons(ported_study())) if row["target"] == "cpu/xla"]
    assert xla["lost"] == 3 and xla["type_failure_share"] == pytest.approx(2 / 3)
    assert xla["not_implemented_share"] == pytest.approx(1 / 3) and xla["crash_share"] == 0


def test_slowdowns_are_with_and_without_the_first_call() -> None:
    rows = {(r["target"], r["estimator"]): r for r in records(tables.slowdowns(ported_study()))}
    steady, paper = rows["cpu/xla", "steady"], rows["cpu/xla", "paper's"]
    assert steady["median_slowdown"] == pytest.approx(0.5) and steady["slower_share"] == 0
    assert paper["over_ten_times_share"] == pytest.approx(3 / 8) and paper["slower_share"] == 1
    assert rows["cpu/graph", "steady"]["median_slowdown"] == pytest.approx(3.0)
    assert tables.distribution([]) == (None,) * 5


def claim(study: PortingStudy, words: str) -> tuple[str, str]:
    (found,) = [each for each in check_claims(study) if words in each.statement]
    return found.here, found.holds


def test_statements_are_checked_on_the_data() -> None:
    study = ported_study()
    assert claim(study, "over 40 %") == ("tensorflow: cpu/xla 33 % (12–65)", "not determined")
    assert claim(study, "22 % of TensorFlow") == ("cpu/graph 0 % (0–28), cpu/xla 33 % (12–65)", "yes")
    assert claim(study, "98 % of TensorFlow") == ("cpu/graph 100 % (72–100), cpu/xla 100 % (68–100)", "yes")
    assert claim(study, "91.8 % of JAX") == ("", "no data")
    assert claim(study, "5 points")[1] == "yes"
    for name in [f"tensorflow.f{number}" for number in range(9)]:
        lost = FunctionCell("tensorflow", name, "cpu/xla", (SampleResult("x", "crash", "it ended"),))
        study.cells["tensorflow", name, "cpu/xla"] = lost
    assert claim(study, "over 40 %") == ("tensorflow: cpu/xla 100 % (70–100)", "yes")


def test_jax_is_compared_by_the_papers_estimator_and_a_figure_below_on_one_target_is_said() -> None:
    """Later calls are twice as fast on `cpu/xla`, and first calls slower."""
    study = ported_study()
    study.draws["jax"] = dataclasses.replace(study.draws["tensorflow"], framework="jax")
    for (_, name, target), cell in [*study.cells.items()]:
        seconds = latency(0.5, 0.9) if target == "cpu/graph" else cell.latency
        study.cells["jax", name, target] = dataclasses.replace(cell, framework="jax", latency=seconds)
    assert claim(study, "91.8 % of JAX") == ("cpu/graph 100 % (72–100), cpu/xla 0 % (0–32)", "on some targets")


def test_a_simulated_target_has_classes_and_no_ratio() -> None:
    study = ported_study()
    for number in range(10):
        key = ("tensorflow", f"tensorflow.f{number}", "cpu/graph")
        why = "simulated: its seconds are not the device's"
        study.cells[key] = dataclasses.replace(study.cells[key], latency=None, untimed=why)
    steady = {r["target"]: r for r in records(tables.slowdowns(study)) if r["estimator"] == "steady"}
    assert (steady["cpu/graph"]["functions"], steady["cpu/graph"]["median_slowdown"]) == (0, None)
    assert steady["cpu/graph"]["left_out"] == f"10: {why}" and steady["cpu/xla"]["functions"] == 8
    graph = next(row for row in records(tables.classes(study)) if row["target"] == "cpu/graph")
    assert graph["success"] == 10
    page = study_page(porting_page(study))
    assert ">simulated</td>" in page and ">3×</td>" not in page


def test_wide_intervals_are_counted_and_values_that_were_not_compared_are_no_success() -> None:
    study = ported_study()
    key = ("tensorflow", "tensorflow.f0", "cpu/xla")
    cell, seconds = study.cells[key], latency(1.0, 2.0)
    wide = dataclasses.replace(seconds, target=((0.5,) * 4, (5.0,) * 4))
    form = (SampleResult("float32[3]", "form only", "the values are random"),)
    study.cells[key] = dataclasses.replace(cell, samples=form, latency=wide)
    rows = {(r["target"], r["estimator"]): r["wide_intervals"] for r in records(tables.slowdowns(study))}
    assert (rows["cpu/xla", "steady"], rows["cpu/graph", "steady"], rows["cpu/xla", "paper's"]) == (1, 0, None)
    _, xla, _ = records(tables.classes(study))
    assert (xla["success"], xla["form_only"], xla["functions"]) == (5, 1, 8)
    found = compare_studies(study, study)
    assert (found.slowdowns, found.undetermined) == (17, 1)


def test_the_file_gives_the_study_back(kept: Path) -> None:
    assert StudyFile(kept).read() == ported_study()


def test_a_study_that_was_cut_goes_on(kept: Path) -> None:
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-30])
    study = StudyFile(kept).begin(ported_study().settings, "Test CPU")
    assert len(study.cells) == len(ported_study().cells) - 1
    missing = next(cell for key, cell in ported_study().cells.items() if key not in study.cells)
    StudyFile(kept).add(study, missing)
    assert StudyFile(kept).read() == ported_study() and kept.read_bytes() == whole


def test_files_that_do_not_fit_are_named(kept: Path, tmp_path: Path) -> None:
    with pytest.raises(MindgapError, match="another rounds, machine; give --out another file"):
        StudyFile(kept).begin({"processes": 2, "rounds": 5}, "Other CPU")
    other = tmp_path / "other.jsonl"
    with pytest.raises(MindgapError, match="cannot be read"):
        StudyFile(other).read()
    other.write_text('{"kind": "cell"}\n{"kind": "cell"}\n')
    with pytest.raises(MindgapError, match="line 1 is not of a portability study"):
        StudyFile(other).read()
    other.write_text("")
    with pytest.raises(MindgapError, match="it is empty"):
        StudyFile(other).read()


def test_two_studies_are_compared_by_class_and_interval() -> None:
    before, after = ported_study(), ported_study()
    assert compare_studies(before, after).differences == ()
    key = ("tensorflow", "tensorflow.f0", "cpu/xla")
    after.cells[key] = dataclasses.replace(after.cells[key], latency=latency(5.0, 20.0))
    other = ("tensorflow", "tensorflow.f8", "cpu/xla")
    after.cells[other] = dataclasses.replace(after.cells[other], samples=(SampleResult("float32[3]"),))
    lacking = after.cells.pop(("tensorflow", "tensorflow.f3", "cpu/graph"))
    sample = ("tensorflow", "tensorflow.f4", "cpu/graph")
    after.cells[sample] = dataclasses.replace(lacking, function=sample[1], samples=(SampleResult("float32[9]"),))
    found = compare_studies(before, after)
    assert (found.cells, found.slowdowns) == (20, 17)
    assert [(each.function, each.what) for each in found.differences] == [
        ("tensorflow.f0", "slow-down"), ("tensorflow.f3", "cell"), ("tensorflow.f4", "samples"),
        ("tensorflow.f8", "class"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (PortingStudy({"processes": 2, "rounds": 4}, "Test CPU"), "no function on a target in common"),
        (PortingStudy({"processes": 2, "rounds": 5}, "Test CPU"), "another rounds"),
        (PortingStudy({"processes": 2, "rounds": 4}, "Other CPU"), "another machine"),
    ],
)
def test_studies_that_cannot_be_compared_are_refused(other: PortingStudy, message: str) -> None:
    with pytest.raises(MindgapError, match=message):
        compare_studies(ported_study(), other)


def test_studies_of_other_versions_are_refused() -> None:
    other = ported_study()
    other.draws["tensorflow"] = dataclasses.replace(other.draws["tensorflow"], versions={"tensorflow": "2.1"})
    with pytest.raises(MindgapError, match="another versions of tensorflow"):
        compare_studies(ported_study(), other)


def test_a_package_that_one_study_alone_has_is_no_other_version() -> None:
    """It is of a target that the other study left out, whose cells differ."""
    other = ported_study()
    versions = {**other.draws["tensorflow"].versions, "onnxruntime-qnn in qnn": "2.7.0"}
    other.draws["tensorflow"] = dataclasses.replace(other.draws["tensorflow"], versions=versions)
    assert not compare_studies(ported_study(), other).differences


@pytest.mark.parametrize(
    "damage",
    [
        {"source": [[0.0] * 4] * 2}, {"source_first": []}, {"source": [[1.0]] * 2}, {"source": [["a"] * 4] * 2},
        {"target": [[1.0] * 4]},
    ],
)  # fmt: skip
def test_seconds_that_are_none_are_named_with_their_line(kept: Path, damage: dict[str, object]) -> None:
    lines = kept.read_text().splitlines()
    cell = json.loads(lines[2])
    cell["latency"].update(damage)
    kept.write_text("\n".join([*lines[:2], json.dumps(cell), *lines[3:]]))
    with pytest.raises(MindgapError, match="line 3 is not of a portability study"):
        StudyFile(kept).read()


def test_targets_that_are_no_object_are_named(kept: Path) -> None:
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join([lines[0], json.dumps({**json.loads(lines[1]), "targets": 3}), *lines[2:]]))
    with pytest.raises(MindgapError, match="line 2 is not of a portability study"):
        StudyFile(kept).read()


def test_the_page_shows_every_function_and_target_and_needs_no_other_file() -> None:
    page = study_page(porting_page(ported_study()))
    assert all(f"tensorflow.f{number}" in page for number in range(10))
    assert "TensorFlow is built without CUDA" in page and "2 of 4" not in page
    assert "3 of 4 lost" in page and page.count('aria-roledescription="circle"') == 2 * (8 + 10)
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)


def test_ratios_are_written() -> None:
    assert [times(x) for x in (0.0461, 12.34, 1406.2, math.inf)] == ["0.0461×", "12.3×", "1,406×", "∞"]


def test_the_command_shows_a_study(kept: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ("--show", str(kept), "--html", str(tmp_path / "page.html"), "--csv", str(tmp_path / "csv"))
    assert main(["study", "portability", *arguments]) == 0
    out, err = capfd.readouterr()
    assert "33.33 %" in out and "66.67 %" in out and "tensorflow.g " in out and not err
    assert max(map(len, out.splitlines())) <= 200
    assert {path.stem for path in (tmp_path / "csv").iterdir()} == {
        table.name for table in tables.study_tables(ported_study())
    }
    assert "</html>" in (tmp_path / "page.html").read_text()
    assert main(["study", "portability", "--show", str(kept), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["tables"]["classes"]["rows"][1][2] == 9


def test_a_study_that_differs_from_an_earlier_one_ends_with_status_1(
    kept: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    later, study = tmp_path / "later.jsonl", ported_study()
    later.write_bytes(kept.read_bytes())
    cell = study.cells["tensorflow", "tensorflow.f8", "cpu/xla"]
    StudyFile(later).add(study, dataclasses.replace(cell, samples=(SampleResult("bool[3]"),)))
    assert main(["study", "portability", "--show", str(kept), "--against", str(kept)]) == 0
    assert main(["study", "portability", "--show", str(later), "--against", str(kept)]) == 1
    assert "class complete failure: not implemented, now success" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --out FILE to run a study (or to go on with one), or --show FILE to show one"),
        (["--out", "x.jsonl", "--framework", "caffe"], "no framework caffe: there are pytorch, jax, tensorflow"),
        (["nowhere", "--out", "x.jsonl"], "nowhere: no such file or folder"),
        (["--out", "x.jsonl", "--top", "0", "--per-decile", "0"], "no function would be drawn"),
        (["--out", "x.jsonl", "-p", "cpu/egaer"], "cpu/egaer"),
        (["--show", "missing.jsonl"], "missing.jsonl: cannot be read"),
    ],
)
def test_wrong_use_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["study", "portability", *arguments]) == 2
    err = capfd.readouterr().err
    assert message in err and err.count("\n") == 1
