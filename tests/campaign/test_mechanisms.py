"""A campaign's findings are compared in a worker process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mindgap.findings.reduction.files import Summary
from mindgap.graph import Graph, Input, Node, Normal, Ref, TensorSpec, contiguous_stride, save
from mindgap.platforms.name import parse
from mindgap.workflows.campaign.results.mechanisms import same_mechanisms
from mindgap.workflows.campaign.state.directory import open_directory


def finding(out: Path, op: str, graph: Graph | None = None) -> str:
    """A finding of a crash in the directory `out`; the name of its script."""
    script = f"{op}.py"
    summary = Summary(
        "t", parse("cpu/jit"), "failed", "platform", (f"aten.{op}.default",), ("float32",), "killed", 1, 1, 1.0,
        True, True, True, script, status="crash",
    )  # fmt: skip
    Path(out, f"{op}.json").write_text(json.dumps(asdict(summary)))
    if graph is not None:
        save(graph, Path(out, f"{op}.graph"))
    return script


def one_call(op: str) -> Graph:
    spec = TensorSpec("float32", (4,), contiguous_stride((4,)))
    return Graph((Input(spec, Normal(0)),), (Node(f"aten.{op}.default", (Ref(0),), (), (spec,)),), (1,))


@pytest.mark.nightly
def test_findings_that_run_as_one_operator_are_found_in_a_worker(campaign: Callable[..., Any], tmp_path: Path) -> None:
    campaign(1, "toys:EXACT")
    out = tmp_path / "reduced"
    out.mkdir()
    scripts = [finding(out, op, one_call(op)) for op in ("fft_ifftshift", "fft_fftshift", "sin")]
    found = same_mechanisms(open_directory(tmp_path / "out"), out, scripts)
    assert [(each.first, each.second) for each in found] == [("fft_ifftshift.py", "fft_fftshift.py")]
    assert found[0].evidence == "Eager PyTorch runs both fft_ifftshift and fft_fftshift as roll."


@pytest.mark.nightly
def test_what_cannot_be_read_or_started_is_no_evidence(campaign: Callable[..., Any], tmp_path: Path) -> None:
    campaign(1, "toys:EXACT")
    directory = open_directory(tmp_path / "out")
    assert same_mechanisms(directory, tmp_path, ["gone.py", "lost.py"]) == ()
    assert same_mechanisms(directory, tmp_path, ["one.py"]) == ()
    scripts = [finding(tmp_path, op, one_call(op)) for op in ("fft_ifftshift", "fft_fftshift")]
    assert same_mechanisms(directory, tmp_path, scripts, seconds=0.0) == ()
