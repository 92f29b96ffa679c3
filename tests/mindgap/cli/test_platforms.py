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


def test_people_get_a_table(tmp_path: Path) -> None:
    ran = mindgap("platforms", cwd=tmp_path)
    assert ran.status == 0 and "cpu/eager" in ran.out and "cuda/eager" in ran.out
