"""What a log gets to read while a command works."""

from __future__ import annotations

import time

import pytest

from mindgap.cli import progress


def test_a_log_is_told_of_items_that_are_counted(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_SILENCE_S", 0.05)
    text = ""
    with progress.counting() as tell:
        time.sleep(0.3)
        tell(3, 7, "iree/cpu aten.add.Tensor")
        for _ in range(200):
            text += capfd.readouterr().err
            if "aten.add" in text:
                break
            time.sleep(0.02)
    assert "3/7  iree/cpu aten.add.Tensor  (about" in text
    capfd.readouterr()
    time.sleep(0.15)
    assert not capfd.readouterr().err, "the log goes on after the work"
