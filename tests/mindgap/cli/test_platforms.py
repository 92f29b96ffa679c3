"""`mindgap platforms`: every one of them, there or not, with the reason."""

from __future__ import annotations

import json
from pathlib import Path

from cli.command_line import mindgap


def test_json_has_one_object_per_platform(tmp_path: Path) -> None:
    ran = mindgap("platforms", "--json", cwd=tmp_path)
    assert ran.status == 0, ran.err
    listed = {entry["platform"]: entry for entry in json.loads(ran.out)}
    for entry in listed.values():
        assert set(entry) == {
            "platform", "backend", "available", "reason", "hardware", "versions", "options", "environment", "execution",
            "host", "arithmetic",
        }  # fmt: skip
        assert entry["available"] or entry["reason"], f"{entry['platform']} is not there and does not say why"
    assert listed["cpu/eager"]["available"] and "torch" in listed["cpu/eager"]["versions"]


def test_people_get_what_is_here_before_what_is_not(tmp_path: Path) -> None:
    ran = mindgap("platforms", cwd=tmp_path)
    here, _, absent = ran.out.partition("not here")
    assert ran.status == 0 and "cpu/eager" in here and "cuda/eager" in absent and "cuda/eager" not in here
    assert absent.count("there is no NVIDIA device") == 1, "platforms that lack the same thing share a line"


def test_a_named_platform_shows_its_options(tmp_path: Path) -> None:
    ran = mindgap("platforms", "cpu/eager", "cuda/eager", cwd=tmp_path)
    assert ran.status == 0 and "@threads=" in ran.out and "[hosts.NAME]" in ran.out
    assert "not here" in ran.out.partition("cuda/eager")[2] and "cpu/jit" not in ran.out
    wrong = mindgap("platforms", "cpu/eagre", cwd=tmp_path)
    assert wrong.status == 2 and "did you mean cpu/eager" in wrong.err
