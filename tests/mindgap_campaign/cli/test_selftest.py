"""`mindgap selftest --quick`: its JSON has what was promised, and says that mindgap tells the truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command_line import mindgap


@pytest.mark.nightly
@pytest.mark.slow
def test_quick_selftest_passes_and_counts(tmp_path: Path) -> None:
    ran = mindgap("selftest", "--quick", "--json", cwd=tmp_path)
    found = json.loads(ran.out)
    assert ran.status == 0, ran.err
    assert found["faults"] > 0 and found["false_alarms"] == 0
    assert found["recall"] == 1.0 and found["culprit_accuracy"] >= 0.98
