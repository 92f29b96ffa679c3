"""`mindgap study gap` as a user runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cli.command_line import mindgap
from gap.gap_rows import made
from mindgap.cli import main
from mindgap.results.store import Store
from mindgap_studies.gap import gap


@pytest.mark.nightly
def test_files_json_and_text_say_the_same(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    made(store, 0)
    study = gap(store)
    (tmp_path / "out").mkdir()
    ran = mindgap(
        *("study", "gap", "store", "--json", "--html", "out/page.html", "--csv", "out/csv"), cwd=tmp_path
    )  # fmt: skip
    assert ran.status == 0 and not ran.err
    content = json.loads(ran.out)
    assert content["wrong"] == [] and content["run"] == "campaign-0" and content["checks"] == len(study.checks)
    assert {path.stem for path in (tmp_path / "out" / "csv").iterdir()} == set(content["tables"])
    for table in study.tables:
        assert [tuple(row) for row in content["tables"][table.name]["rows"]] == list(table.rows)
        with (tmp_path / "out" / "csv" / f"{table.name}.csv").open(newline="") as file:
            rows = list(csv.reader(file))
        assert tuple(rows[0]) == table.columns and len(rows) == len(table.rows) + 1
    assert "campaign-0" in (tmp_path / "out" / "page.html").read_text()


def test_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    made(store, 0, finished=False)
    assert main(["study", "gap", str(tmp_path)]) == 0
    out, err = capfd.readouterr()
    assert "Output consistency (Fig. 4)" in out and "onnxruntime/cpu" in out
    assert "has not come to its end" in err


def test_totals_that_do_not_agree_are_a_failure_of_the_tool(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    run = made(store, 0)
    store.append("outcomes", {**run.outcomes["m000", "cpu/jit"], "model": "nobody's"})
    assert main(["study", "gap", str(tmp_path)]) == 3
    assert "totals do not agree: outcomes and verdicts of cpu/jit: 41 and 40" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "STORE"),
        (["absent"], "absent is no store"),
        (["empty"], "empty holds no run with outcomes"),
        (["store", "--run", "other"], "holds no run other; it holds campaign-0"),
        (["store", "--csv", "empty/mindgap-store.json"], "is not a directory"),
        (["store", "--nonsense"], "--nonsense"),
    ],
)
def test_one_line_and_status_2(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    Store(tmp_path / "empty")
    made(Store(tmp_path / "store"), 0, models=3)
    monkeypatch.chdir(tmp_path)
    assert main(["study", "gap", *arguments]) == 2
    out, err = capfd.readouterr()
    assert says in err and err.count("\n") == 1 and not out and "Traceback" not in err
