"""Hangs and crashes are reduced, and their scripts run the platform in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mindgap.findings.reduction.finding import reduce_finding
from mindgap.findings.reduction.hang import HangDeadline
from mindgap.findings.reduction.specification import SPECIFIER, specified_in_worker
from mindgap.findings.script.form import FAULT, NO_FAULT, ScriptForm, script_source
from mindgap.findings.script.script_platform import ScriptPlatform
from mindgap.findings.script.short import ShownCase, with_cases
from mindgap.graph import Constant, Graph, GraphError, Input, Node, Ref, TensorSpec, TensorStore
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import parse
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Outcome
from mindgap.run.pool import WorkerPool


@pytest.mark.nightly
def test_a_hang_is_reduced_to_the_operator_that_hangs(tmp_path: Path) -> None:
    faults = tmp_path / "faults.toml"
    faults.write_text('[[fault]]\nkind = "hang"\nwhen = {op = "aten.cos.*"}\n')
    platform = f"faulty/eager@faults={faults}"
    store = TensorStore(tmp_path / "tensors")
    graph = capture(lambda x: torch.sin(torch.cos(torch.exp(x) + 1)) * 2, (torch.randn(3, 4),), tensors=store)
    with WorkerPool(["cpu/eager"], tensors=store, busy=1, grows=True) as pool:
        context = RunContext(pool.run, RunSettings(deadline_s=15.0), store, pool.describe)
        row = GraphComparison(context, "hang", graph).row(parse(platform))
        assert row.status == "timeout" and row.finding, row
        found = reduce_finding(context, graph, row)
    assert [node.op for node in found.reduction.graph.nodes] == ["aten.cos.default"]
    assert found.row.status == "timeout" and found.reduction.graph.inputs[0].spec.numel == 1


def test_the_deadline_follows_the_longest_time_of_a_graph_that_ended() -> None:
    deadline = HangDeadline(300.0)
    assert deadline.seconds == 300.0, "nothing has ended yet"
    deadline.observe(Outcome("p", "g", "timeout", timings={"total": 100.0}))
    assert deadline.seconds == 300.0
    deadline.observe(Outcome("p", "g", "ok", timings={"total": 2.0}))
    deadline.observe(Outcome("p", "g", "ok", timings={"total": 1.0}))
    assert deadline.seconds == 25.0
    deadline.observe(Outcome("p", "g", "ok", timings={"total": 90.0}))
    assert deadline.seconds == 300.0


@pytest.mark.parametrize(
    ("ends", "body", "status", "last"),
    [
        pytest.param("hangs", "while True: pass", 1, FAULT, marks=pytest.mark.nightly),
        ("hangs", "return model(*fresh())", 0, NO_FAULT),
        pytest.param(
            "hangs",
            "import os; os.abort()",
            2,
            "Another fault than the one that this script shows.",
            marks=pytest.mark.nightly,
        ),
        ("crashes", "import os; os.abort()", 1, FAULT),
        ("crashes", "raise ValueError", 2, "Another fault than the one that this script shows."),
    ],
)
def test_the_short_script_of_a_process_that_does_not_end_by_itself(
    ends: str, body: str, status: int, last: str, tmp_path: Path
) -> None:
    graph = capture(torch.sin, (torch.ones(2),), tensors=TensorStore(tmp_path))
    limit_s = 15.0 if body.startswith("while") else 200.0
    form = ScriptForm("a title", ScriptPlatform("cpu/eager"), kind=ends, limit_s=limit_s)  # type: ignore[arg-type]
    text = script_source(with_cases(form, [ShownCase("smallest", graph)]))
    assert "mindgap" not in text
    file = tmp_path / "script.py"
    file.write_text(text.replace("return model(*fresh())", body))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, last), done


def _graph(op: str, shape: tuple[int, ...], *args: object) -> Graph:
    spec = TensorSpec.contiguous("float32", shape)
    return Graph((Input(spec, Constant(0.0)),), (Node(op, (Ref(0), *args), (), (spec,)),), (1,))  # type: ignore[arg-type]


@pytest.mark.nightly
def test_candidates_are_specified_in_a_worker_that_may_crash(tmp_path: Path) -> None:
    with WorkerPool([SPECIFIER], tensors=TensorStore(tmp_path), busy=1) as pool:
        found = specified_in_worker(_graph("aten.transpose.int", (2, 3), 0, 1), pool.run)
        assert found.nodes[0].outputs == (TensorSpec("float32", (3, 2), (1, 3)),)
        with pytest.raises(GraphError, match=r"aten\.transpose\.int"):
            specified_in_worker(_graph("aten.transpose.int", (2, 3), 0, 7), pool.run)
        pid = pool.pids()[SPECIFIER]
        subprocess.run(["kill", "-9", str(pid)], check=True)
        assert specified_in_worker(_graph("aten.sin.default", (2,)), pool.run).nodes[0].op == "aten.sin.default"
