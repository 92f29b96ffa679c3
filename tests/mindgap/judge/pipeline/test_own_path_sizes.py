"""What one export with dynamic dimensions adds to a row."""

import pytest

from mindgap.judge.pipeline.own_path_sizes import with_sizes
from mindgap.own_path.runs import OwnRun, SizedRuns
from mindgap.own_path.sizes import SizeRun
from mindgap.results.rows import OwnPath, Row

EXPORTED = SizeRun("the exported sizes", 0.0)
RUN = OwnRun("onnxruntime/cpu", "torch.onnx.export", ())


def judged(own: OwnPath, *runs: SizeRun) -> Row:
    row = Row("model", "onnxruntime/cpu", "ok", "rounding", own_path=own)
    return with_sizes(row, SizedRuns(runs), RUN, lambda _: None)


def test_what_fails_without_dynamic_dimensions_too_is_no_fault_of_theirs() -> None:
    failed = SizeRun("the exported sizes", None, "no conversion rule")
    row = judged(OwnPath("failed", detail="no conversion rule"), failed)
    assert row.own_path is not None and row.own_path.status == "failed"
    assert row.own_path.detail == "no conversion rule; with dynamic dimensions it fails too" and not row.faults
    assert [fault.verdict for fault in judged(OwnPath("same"), failed).faults] == ["export"]


@pytest.mark.parametrize(
    ("runs", "held"),
    [
        ([SizeRun("batch=0", None, "batch size is zero"), SizeRun("batch=8", 0.0)], False),
        ([SizeRun("batch=2", None, "cannot reshape"), SizeRun("batch=8", None, "cannot reshape")], True),
        ([SizeRun("batch=2", 0.0), SizeRun("batch=8", 1.0)], True),
    ],
)
def test_an_export_holds_a_size_unless_it_only_fails_at_some(runs: list[SizeRun], held: bool) -> None:
    (fault,) = judged(OwnPath("same"), EXPORTED, *runs).faults
    assert ("dynamic_size" in [reason.kind for reason in fault.reasons]) == held


def test_a_difference_that_rounding_makes_at_a_size_is_none() -> None:
    apart = SizeRun("batch=17", 0.065, moves=0.01)
    assert not judged(OwnPath("same"), EXPORTED, apart).faults
    assert judged(OwnPath("same"), EXPORTED, SizeRun("batch=17", 0.065, moves=0.001)).faults
