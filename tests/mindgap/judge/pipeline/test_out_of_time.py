"""A judge that is cut short concludes nothing, and what is known by then is in the row."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from mindgap.graph.activity import activity_receiver, report_activity
from mindgap.graph.compare.reason import Reason
from mindgap.graph.tensors import TensorStore
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.pipeline.time_budget import INTERRUPTED, OutOfTime, TimeBudget
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.name import CPU_EAGER, PlatformName, parse
from mindgap.results.advice import advised
from mindgap.results.rows import PlatformFacts, Report
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Job, Outcome
from mindgap_campaign.selftest.subjects import graph_of
from mindgap_campaign.selftest.trial import InProcessExecutor

NUDGE = 'kind = "wrong_element"\nindex = 3\nadd = 0.5'


def compared(tmp_path: Path) -> tuple[GraphComparison, PlatformName]:
    tensors = TensorStore(tmp_path / "tensors")
    graph = graph_of("mlp", 0, tensors)
    file = tmp_path / "faults.toml"
    file.write_text(f'[[fault]]\n{NUDGE}\nwhen = {{ op = "aten.gelu*" }}\n')
    context = RunContext(InProcessExecutor(tensors), RunSettings(), tensors)
    return GraphComparison(context, "mlp", graph), parse(f"faulty/eager@faults={file}")


def test_a_judge_ends_between_two_operators(tmp_path: Path) -> None:
    comparison, platform = compared(tmp_path)
    told: list[str] = []

    def receiver(text: str) -> None:
        told.append(text)
        if len(told) > 12:
            raise OutOfTime

    with activity_receiver(receiver):
        row = comparison.row(platform)
    assert row.verdict is None and row.unjudged and row.detail == "the time budget was used up"
    assert row.digests and row.metrics["max_abs"] and row.metrics["n_differing"]
    counts = [int(each) for text in told for each in re.findall(r"judging: (\d+) operators", text)]
    assert counts == sorted(set(counts)) and len(counts) > 5, "progress runs forth only"
    # Nothing that was half done is used later.
    row = comparison.row(platform)
    assert row.verdict == "discrepant" and row.culprit is not None and row.culprit.op == "aten.gelu.default"


def test_what_is_known_without_a_judge(tmp_path: Path) -> None:
    comparison, platform = compared(tmp_path)
    nothing = comparison.row_so_far(platform, INTERRUPTED)
    assert (nothing.word, nothing.detail) == ("not_run", "interrupted")
    comparison.run(platform)
    some = comparison.row_so_far(platform, INTERRUPTED)
    assert (some.word, some.detail) == ("unjudged", "interrupted") and some.metrics["max_abs"]
    assert advised(some).advice == "", "the user did not leave the judge out"
    late = advised(comparison.row_so_far(platform, Reason("time_budget")))
    assert late.metrics["max_abs"] and late.advice == "give --budget more time, or compare fewer platforms at once"
    comparison.run(parse("cpu/eager@threads=1"))
    assert comparison.row_so_far(parse("cpu/eager@threads=1"), INTERRUPTED).verdict == "identical"


def test_nothing_was_asked_for_is_not_said_of_what_did_not_come_to_its_end(tmp_path: Path) -> None:
    comparison, platform = compared(tmp_path)
    reference = PlatformFacts(CPU_EAGER, "eager", True)
    none = Report(CPU_EAGER, (reference,), (comparison.model({}),), ())
    assert none.nothing == "no platform was asked for besides the reference: nothing was compared"
    asked = Report(CPU_EAGER, (reference, PlatformFacts(platform, "faulty", True)), (comparison.model({}),), ())
    assert asked.nothing == "no platform had run a model yet: nothing was compared"


def test_a_host_that_is_lost_is_no_failure_of_its_platform(tmp_path: Path) -> None:
    comparison, platform = compared(tmp_path)
    inner, lost = comparison.context.execute, ["host edge: the connection was lost"]

    def execute(job: Job) -> Outcome:
        if lost and job.platform == platform:
            raise HostProblem(lost[0])
        return inner(job)

    comparison.context = dataclasses.replace(comparison.context, execute=execute)
    row = comparison.row(platform)
    assert (row.word, row.verdict, row.unknown) == ("not_run", None, True)
    assert row.detail == "host edge: the connection was lost"
    lost.clear()
    assert comparison.row(platform).verdict == "discrepant", "it is run when the host is back"


def test_a_budget_is_checked() -> None:
    TimeBudget(None).check()
    TimeBudget(60.0).check()
    with pytest.raises(OutOfTime, match="used up"):
        TimeBudget(0.0).check()


def test_without_a_receiver_nothing_happens() -> None:
    report_activity("judging", "operators evaluated")
