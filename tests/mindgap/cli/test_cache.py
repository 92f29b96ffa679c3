"""`mindgap cache`, and graph files whose tensors are gone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.command_line import MODELS, mindgap

BIG = MODELS + "\n\ndef big(): return torch.nn.Linear(64, 64), (torch.ones(64),)\n"


@pytest.mark.nightly
def test_cache_is_shown_and_cleared_and_a_graph_file_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(BIG)
    for file in ("big.graph", "big.mindgap"):
        captured = mindgap("capture", "models.py:big", "-o", file, cwd=tmp_path)
        assert captured.status == 0, captured.err
    found = json.loads(mindgap("cache", "--json", cwd=tmp_path).out)
    assert found["directory"] == str(tmp_path / "home" / "tensors")
    assert found["files"] == 1 and found["nbytes"] > 64 * 64 * 4 and found["limit"] == 20 << 30

    shown = mindgap("cache", "--clear", cwd=tmp_path)
    assert shown.status == 0 and shown.err == "", shown.err
    assert shown.out.startswith("removed ") and "0.0 MiB in 0 files, at most 20 GiB (MINDGAP_CACHE_GIB)" in shown.out
    assert os.listdir(tmp_path / "home" / "tensors") == []

    refused = mindgap("diff", "graph:big.graph", "-p", "cpu/jit", cwd=tmp_path)
    assert refused.status == 2
    assert "big.graph: 1 of its 1 tensors are not in the cache" in refused.err
    assert "mindgap capture SOURCE -o FILE.mindgap" in refused.err and "Traceback" not in refused.err
    ran = mindgap("diff", "big.mindgap", "-p", "cpu/jit", cwd=tmp_path)
    assert ran.status == 0, ran.err
    # Its tensors are in the cache again.
    assert mindgap("diff", "graph:big.graph", "-p", "cpu/jit", cwd=tmp_path).status == 0


def test_a_wrong_limit_is_one_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MINDGAP_CACHE_GIB", "plenty")
    (tmp_path / "models.py").write_text(MODELS)
    for arguments in (("cache",), ("diff", "models.py:calm", "-p", "cpu/jit")):
        ran = mindgap(*arguments, cwd=tmp_path)
        assert ran.status == 2
        assert ran.err == "mindgap: MINDGAP_CACHE_GIB=plenty: it takes a number of GiB, as in MINDGAP_CACHE_GIB=20\n"
