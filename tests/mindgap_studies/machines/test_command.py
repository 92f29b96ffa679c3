"""`mindgap study deviations FILE…` and `--collect FILE` as a user runs them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from mindgap.cli import main


def test_tables_of_a_collected_file(collected_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "deviations", str(collected_path), "--out", str(tmp_path / "out")]) == 0
    out, err = capfd.readouterr()
    assert "tiny/0" in out and not err
    with (tmp_path / "out" / "own_figure_5.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["operator"] == "aten.conv2d.default"
    assert all(row["platforms"] == "3" for row in rows)
    assert main(["study", "deviations", str(collected_path), "--json"]) == 0
    tables = json.loads(capfd.readouterr().out)["tables"]
    assert set(tables) == {path.stem for path in (tmp_path / "out").glob("*.csv")}
    drawn = {path.stem for path in (tmp_path / "out").glob("*.svg")}
    assert drawn == {
        "own_classes", "own_dendrogram-tiny-relu-max-untrained-sample-0", "own_figure_5-tiny-relu-max-untrained"
    }  # fmt: skip


def test_the_page_of_a_collected_file(collected_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "deviations", str(collected_path), "--html", str(tmp_path / "page.html")]) == 0
    assert not capfd.readouterr().err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<b class="answer">3</b><span>platforms' in page and 'id="layers"' in page and 'id="flags"' in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give one of --published DIR, --collect FILE, FILE"),
        (("FILE", "--published", "x"), "give one of --published DIR, --collect FILE, FILE"),
        (("FILE", "--collect", "x"), "here.json.zst is a collected file, no model"),
        (("FILE", "FILE"), "here.json.zst holds the same observations"),
        (("FILE", "--quick"), "--quick: for --collect only"),
        (("FILE", "-p", "cpu/eager", "--samples", "2"), "-p and --samples: for --collect only"),
        (("--collect", "x", "--out", "y"), "--collect FILE makes no tables"),
        (("--collect", "x", "--html", "y"), "--collect FILE makes no tables"),
        (("FILE", "--html", "absent/page.html"), "there is no directory absent"),
        (("--collect", "x", "--budget", "soon"), "--budget soon: it takes a time"),
        (("--collect", "absent/x"), "there is no directory absent"),
        (("EMPTY",), "empty is empty: collect it again"),
        (("absent",), "absent cannot be read"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    arguments: tuple[str, ...], said: str, collected_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    named = {"FILE": str(collected_path), "EMPTY": "empty"}
    assert main(["study", "deviations", *(named.get(each, each) for each in arguments)]) == 2
    out, err = capfd.readouterr()
    assert said in err and err.count("\n") == 1 and not out
    assert not (tmp_path / "x").exists()
