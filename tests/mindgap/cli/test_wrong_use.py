"""A user's mistake is one line on standard error, exit status 2, and never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_line import MODELS, mindgap
from mindgap.cli import main


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["diff"], "SOURCE"),
        (["nonsense"], "nonsense"),
        (["diff", "models.py:calm"], "--platform"),
        (["diff", "models.py:calm", "-p", "cpu/eager", "--nonsense"], "--nonsense"),
        (["diff", "models.py:calm", "-p", "cpu/nonsense"], "cpu/nonsense"),
        (["diff", "models.py:calm", "-p", "nonsense"], "DEVICE/MODE"),
        (["diff", "models.py:calm", "-p", "cpu/eager@isa=z80"], "z80"),
        (["diff", "models.py:calm", "-p", "cpu/jit", "--reference", "cpu/none"], "cpu/none"),
        (["diff", "models.py:missing", "-p", "cpu/jit"], "missing"),
        (["diff", "absent.py:make", "-p", "cpu/jit"], "absent.py"),
        (["diff", "models.py:unbuildable", "-p", "cpu/jit"], "no weights here"),
        (["diff", "gopher:x", "-p", "cpu/jit"], "gopher"),
        (["diff", "models.py:calm", "-p", "cpu/jit", "--set", "size"], "OPTION=VALUE"),
        (["diff", "models.py:calm", "-p", "cpu/jit", "--baseline", "absent.json"], "absent.json"),
        (["diff", "models.py:calm", "-p", "cpu/jit", "--update-baseline"], "--baseline"),
        (["diff", "models.py:calm", "-p", "cpu/jit", "--reference-model", "models.py:absent"], "absent"),
        (
            ["diff", "models.py:calm", "-p", "cpu/jit", "--backward", "--reference-model", "models.py:calm"],
            "--backward",
        ),
        (
            ["diff", "models.py:calm", "models.py:calm", "-p", "cpu/jit", "--reference-model", "models.py:calm"],
            "given 1 times for 2 sources",
        ),
        (["diff", "models.py:calm", "-p", "cpu/jit", "--deadline", "0"], "--deadline"),
        (["diff", "models.py:calm", "-p", "cpu/jit", "--deadline", "nan"], "--deadline"),
        (["diff", "models.py:calm", "-p", "cpu/jit", "--repeat", "0"], "--repeat"),
        (["capture", "models.py:calm"], "--output"),
        (["capture", "models.py:broken", "-o", "x.graph"], "models.py"),
        (["diff", "graph:models.py", "-p", "cpu/jit"], "graph"),
        (["report", "absent.json", "-o", "x.html"], "absent.json"),
        (["report", "models.py", "-o", "x.html"], "models.py"),
        (["report", "absent.json"], "see mindgap report --help"),
        (["metamorphic", "models.py:calm", "-p", "cpu/jit", "-p", "cpu/eager"], "one platform, and 2 are given"),
        (["trace", "models.py:calm", "-p", "cpu/jit", "-p", "cpu/eager"], "one platform, and 2 are given"),
        (["repeats", "soft_max", "-p", "cpu/eager"], "no such operator; there are softmax"),
        (["corpus", "list", "absent"], "`corpus build`"),
    ],
)
def test_one_line_and_status_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    status = main(arguments)
    said = capfd.readouterr()
    complaints = [line for line in said.err.splitlines() if line.startswith("mindgap: ")]
    assert status == 2, said.err
    assert len(complaints) == 1 and says in complaints[0], said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_the_process_ends_with_that_status(tmp_path: Path) -> None:
    ran = mindgap("report", "absent.json", "-o", "x.html", cwd=tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("mindgap: absent.json cannot be read") and ran.err.count("\n") == 1


def test_no_arguments_show_the_help_and_are_wrong_use(tmp_path: Path) -> None:
    ran = mindgap(cwd=tmp_path)
    assert ran.status == 2 and "diff" in ran.out and "selftest" in ran.out
