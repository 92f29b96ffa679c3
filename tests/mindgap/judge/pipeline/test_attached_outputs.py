"""A graph whose outputs are small runs once on each side; one whose outputs are large runs again where they differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import CPU_EAGER
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Job, Outcome
from mindgap_campaign.selftest.trial import InProcessExecutor

FAULT = '[[fault]]\nkind = "wrong_element"\nindex = 3\nadd = 0.5\nwhen = { op = "aten.relu*" }\n'


class Recorded:
    """Runs jobs in this process and keeps what was asked for of the whole graph. `fails`: such a run of it fails."""

    def __init__(self, tensors: TensorStore, fails: str = "") -> None:
        self._run, self._fails = InProcessExecutor(tensors), fails
        self.wants: list[tuple[str, str]] = []

    def __call__(self, job: Job) -> Outcome:
        side = job.platform.partition("/")[0]
        if not job.inputs:
            self.wants.append((side, job.want))
            if job.want == "outputs" and side == self._fails:
                return Outcome(job.platform, "", "crash", message="gone")
        return self._run(job)


def compared(folder: Path, elements: int, fails: str = "", judge: bool = True) -> tuple[GraphComparison, Recorded, str]:
    tensors = TensorStore(folder / "tensors")
    graph = capture(torch.nn.ReLU(), (torch.linspace(-1, 1, elements),), tensors=tensors)
    (folder / "faults.toml").write_text(FAULT)
    execute = Recorded(tensors, fails)
    settings = replace(RunSettings(), judge=judge)
    comparison = GraphComparison(RunContext(execute, settings, tensors), "relu", graph)
    return comparison, execute, f"faulty/eager@faults={folder / 'faults.toml'}"


def test_small_outputs_are_not_computed_again(tmp_path: Path) -> None:
    comparison, execute, faulty = compared(tmp_path, 100)
    row = comparison.row(faulty)
    assert row.verdict == "discrepant" and row.blame == "platform"
    assert execute.wants == [("cpu", "digests"), ("faulty", "digests")]
    assert comparison.outcomes[faulty].arrays is None, "a row is made: its outputs are not kept"


def test_large_outputs_are_fetched_where_digests_differ(tmp_path: Path) -> None:
    comparison, execute, faulty = compared(tmp_path, 300_000, judge=False)
    assert comparison.row(CPU_EAGER).verdict == "identical" and len(execute.wants) == 1
    assert comparison.row(faulty).unjudged
    assert execute.wants[1:] == [("faulty", "digests"), ("faulty", "outputs"), ("cpu", "outputs")]


@pytest.mark.parametrize(
    ("fails", "verdict", "blame"), [("faulty", "failed", "platform"), ("cpu", "reference_failed", "reference")]
)
def test_a_side_that_fails_when_it_is_run_again_is_told(tmp_path: Path, fails: str, verdict: str, blame: str) -> None:
    comparison, _, faulty = compared(tmp_path, 300_000, fails)
    row = comparison.row(faulty)
    assert (row.verdict, row.blame) == (verdict, blame) and "failed when it was run again" in row.detail
