"""Findings of real platforms, reduced, with scripts that show them without mindgap."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mindgap.findings.reduction import ReductionLimits
from mindgap.findings.reduction.files import read_summary, summary_text, write_finding
from mindgap.findings.reduction.finding import ReducedFinding, reduce_finding
from mindgap.findings.reduction.reproducer import is_the_failure, report, stable_part, verify
from mindgap.findings.reduction.symptom import symptom_of
from mindgap.graph import Graph, load
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import parse
from mindgap.results.rows import Row
from mindgap_campaign.causes_check import ListedReproducer as Cause, check_reproducers


def found(graph: Graph, platform: str, context: RunContext) -> ReducedFinding:
    row = GraphComparison(context, "case", graph).row(parse(platform))
    assert row.finding, row
    reduced = reduce_finding(context, graph, row)
    assert symptom_of(row).shown_by(reduced.row)
    return reduced


@pytest.mark.nightly
@pytest.mark.slow
def test_a_wrong_result_becomes_one_call_of_a_public_function(context: RunContext) -> None:
    """ONNX Runtime computes `remainder` by a formula that loses it for large quotients."""
    pytest.importorskip("onnxruntime")

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.relu(x @ y)
        return torch.remainder(z * 1e7 + 3, 0.37).exp(), z.sum()

    torch.manual_seed(0)
    graph = capture(program, (torch.randn(8, 16), torch.randn(16, 8)), tensors=context.tensors)
    reduced = found(graph, "onnxruntime/cpu", context)
    assert [node.op for node in reduced.reduction.graph.nodes] == ["aten.remainder.Scalar"]
    assert reduced.reduction.complete and reduced.reduction.graph.inputs[0].spec.numel == 1
    made = reduced.reproducer
    assert made.verified and "torch.remainder(x0, " in made.text and "mindgap" not in made.text
    assert len(made.text.splitlines()) < 140
    assert reduced.stage.stage == "exporter"
    text = report(reduced.reduction.graph, reduced.row, made, reduced.stage, "1 of 1 variants")
    assert "- Stage at fault: exporter\n  - The exported model in ONNX's reference evaluator" in text
    assert text.startswith("# onnxruntime/cpu: aten.remainder.Scalar of float32: gives a wrong result")
    assert reduced.passing is None or not reduced.passing.finding


@pytest.mark.nightly
@pytest.mark.slow
def test_a_failure_is_reduced_too(context: RunContext) -> None:
    """TorchScript's executor has no rule for views of another dtype."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return (torch.sin(x) * 2).contiguous().view(torch.int32).float().cos()

    graph = capture(program, (torch.randn(3, 5),), tensors=context.tensors)
    reduced = found(graph, "cpu/jit", context)
    assert reduced.row.verdict == "failed" and len(reduced.reduction.graph.nodes) == 1
    assert "view" in reduced.reduction.graph.nodes[0].op
    assert reduced.reproducer.verified


@pytest.mark.nightly
@pytest.mark.slow
def test_without_a_short_script_mindgap_runs_a_model_file(context: RunContext, tmp_path: Path) -> None:
    """No script runs TorchScript with a number of threads. The file holds its tensors, and shows the failure again."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x).view(torch.int32)

    graph = capture(program, (torch.randn(3, 5),), tensors=context.tensors)
    row = GraphComparison(context, "case", graph).row(parse("cpu/jit@threads=1"))
    reduced = reduce_finding(context, graph, row, ReductionLimits(stage=False, condition_s=0.0))
    made = reduced.reproducer
    assert made.text == "" and "no script can run cpu/jit@threads=1" in made.reason
    assert made.verified and "cpu/jit@threads=1: failed: " in made.printed
    summary = write_finding(tmp_path, reduced, tensors=context.tensors)
    assert not summary.short and summary.verified and read_summary(tmp_path / f"{summary.script[:-8]}.json") == summary
    assert summary.command == f"mindgap diff {summary.script} -p cpu/jit@threads=1"
    assert f"found again by\n    mindgap diff {tmp_path / summary.script} -p" in summary_text(summary, tmp_path)
    report = (tmp_path / summary.script).with_suffix(".md").read_text()
    assert f"```sh\n{summary.command}\n```" in report and "No short script: no script can run" in report
    (again,) = check_reproducers([Cause(summary.title, tmp_path / summary.script)])
    assert again.answer == "still there"
    (tmp_path / summary.script).with_suffix(".json").unlink()
    (again,) = check_reproducers([Cause(summary.title, tmp_path / summary.script)])
    assert again.answer == "not checked" and "which has its command" in again.reason


def test_a_script_is_verified_by_its_status() -> None:
    said = "import sys\nprint('wrong')\nprint('why', file=sys.stderr)\nsys.exit(1)\n"
    assert verify(said) == (True, "wrong\n", "why\n"), "compilers say it on standard error"
    assert not verify("print('right')\n")[0]
    assert not verify("raise RuntimeError('a bug of the script')\n")[0], "a traceback ends with status 1 as well"
    assert not verify("import mindgap, sys\nsys.exit(1)\n")[0]


@pytest.mark.slow
@pytest.mark.nightly
def test_the_command_writes_script_report_and_graph(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    source = tmp_path / "model.py"
    source.write_text(
        "import torch\n"
        "def make():\n"
        "    return (lambda x: torch.remainder(torch.relu(x) * 1e7 + 3, 0.37)), (torch.ones(2, 3),)\n"
        "def calm():\n"
        "    return torch.nn.ReLU(), (torch.ones(2, 3),)\n"
    )

    def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mindgap", "reduce", f"{source}:{name}", "-p", "onnxruntime/cpu",
                   "--out", str(tmp_path / "out"), *options]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    done = run("make", "--ledger", "known.toml", "--update-ledger", "--sarif", "found.sarif")
    assert done.returncode == 1 and "-> 1 operators" in done.stdout and "verified twice" in done.stdout, done
    (script,) = (tmp_path / "out").glob("*.py")
    assert (script.with_suffix(".md")).exists()
    assert len(load(script.with_suffix(".graph")).nodes) == 1
    assert "aten.remainder" in (tmp_path / "known.toml").read_text()
    assert len(json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"]) == 1
    assert json.loads((tmp_path / "out" / "causes.json").read_text())["causes"][0]["state"] == "new"
    done = run("calm", "--ledger", "known.toml")
    assert done.returncode == 0 and "nothing to reduce" in done.stdout and "gone" in done.stderr
    done = run("calm", "--update-ledger")
    assert done.returncode == 2 and "--ledger FILE" in done.stderr


def test_of_a_crash_the_signal_tells_whether_it_is_the_same() -> None:
    """A script's process prints other words than a worker before it ends."""
    row = Row(
        "m", parse("openvino/cpu"), "crash", "failed", message="killed by SIGFPE while loading\nStack of a worker"
    )
    assert is_the_failure("platform  crashed at compile: SIGFPE: ", row)
    assert not is_the_failure("platform  crashed at compile: SIGSEGV: killed by while loading Stack of a worker", row)


def test_a_warning_is_not_what_a_failure_is_known_by() -> None:
    """It is printed with every message of a compiler, so that a script that looked for it would take any failure."""
    message = (
        "Compilation failed: /lib/copyreg.py:105: FutureWarning: `isinstance(treespec, LeafSpec)` is old\n"
        "  return cls.__new__(cls, *args)\n"
        "loc(callsite(\"a.py\":32:0)): error: 'tensor.cast' op operand type 'tensor<i1>' and result type "
        "'tensor<1xi1>' are cast incompatible\n"
    )
    assert stable_part(message) == "are cast incompatible"
    assert stable_part("ValueError: x must be a matrix") == "ValueError: x must be a matrix"
