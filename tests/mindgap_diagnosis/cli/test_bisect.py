"""`mindgap bisect` on a runtime whose releases are small wheels on the disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command_line import Ran, mindgap
from versions.tiny_runtime import RELEASES, install


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("bisect")
    with pytest.MonkeyPatch.context() as patch:
        install(folder, patch)
        yield folder


def bisect(folder: Path, source: str, *more: str, platform: str = "tiny/runtime") -> Ran:
    return mindgap("bisect", f"model.py:{source}", "-p", platform, *more, cwd=folder)


def test_first_bad_release_and_skipped(folder: Path) -> None:
    ran = bisect(folder, "wrong", "--good", "1.0", "--bad", "1.5", "--json")
    assert ran.status == 1, ran.err
    found = json.loads(ran.out)
    assert (found["first_bad"], found["last_good"], found["mended"]) == ("1.4", "1.2", False)
    assert found["unsure"] == ["1.3"]
    states = {each["version"]: each["state"] for each in found["tried"]}
    assert states == {"1.0": "good", "1.2": "good", "1.3": "skipped", "1.4": "bad", "1.5": "bad"}
    bad = next(each for each in found["tried"] if each["version"] == "1.4")
    assert bad["word"] == "discrepant" and bad["faults"] == ["discrepant aten.relu.default"] and bad["error"] > 0.1
    skipped = next(each for each in found["tried"] if each["version"] == "1.3")
    assert "cannot be installed" in skipped["skipped"]
    assert "6 releases; at most 5 runs and 5 environments to make" in ran.err


@pytest.mark.nightly
def test_environments_are_used_again(folder: Path) -> None:
    for made in (3, 1):
        ran = bisect(folder, "wrong", "--good", "1.2.0", "--bad", "v1.5")
        assert ran.status == 1, ran.err
        assert "first bad release: tinyruntime 1.4; or 1.3, which could not be run: discrepant, aten.relu" in ran.out
        assert ran.err.count("mindgap: making") <= made
        assert "environments kept: tinyruntime-1.2, tinyruntime-1.4" in ran.err


@pytest.mark.nightly
def test_releases_that_are_alike_or_exchanged(folder: Path) -> None:
    ran = bisect(folder, "calm", "--good", "1.5", "--bad", "1.2")
    assert ran.status == 2 and "nothing tells the releases apart: 1.5 is identical; 1.2 is identical" in ran.err
    swapped = bisect(folder, "wrong", "--good", "1.5", "--bad", "1.2")
    assert swapped.status == 2 and "exchange --good and --bad" in swapped.err


def test_plan_without_a_run(folder: Path) -> None:
    ran = bisect(folder, "wrong", "--good", "1.0", "--bad", "1.4", "--dry-run")
    assert (ran.status, ran.out.split()) == (0, list(RELEASES[:5]))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("wrong", "--good", "1.0", "--bad", "1.9"), "tinyruntime has no release 1.9"),
        (("wrong", "--good", "1.0", "--bad", "1.0.0"), "--good and --bad are one version, 1.0"),
        pytest.param(
            ("wrong", "--good", "1.3", "--bad", "1.5"),
            "--good 1.3 cannot be run: tinyruntime==1.3 cannot be installed",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            ("two", "--good", "1.2", "--bad", "1.5"),
            "the source names 2 models: a bisection takes one",
            marks=pytest.mark.nightly,
        ),
        (("refused", "--good", "1.2", "--bad", "1.5"), "no weights here"),
        pytest.param(("nothing", "--good", "1.2", "--bad", "1.5"), "nothing", marks=pytest.mark.nightly),
    ],
)
def test_mistakes_are_one_line(folder: Path, arguments: tuple[str, ...], told: str) -> None:
    ran = bisect(folder, *arguments)
    assert ran.status == 2
    assert told in ran.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("platform", "more", "told"),
    [
        ("tiny/runtime@env=mine", (), "bisect makes its environments"),
        ("tiny/none", (), "tiny/none"),
        ("tiny/runtime", ("--package", "no-package-of-this-name"), "lists no release of no-package-of-this-name"),
    ],
)
def test_platforms_that_have_no_releases(folder: Path, platform: str, more: tuple[str, ...], told: str) -> None:
    ran = bisect(folder, "wrong", "--good", "1.0", "--bad", "1.5", *more, platform=platform)
    assert ran.status == 2
    assert told in ran.err
