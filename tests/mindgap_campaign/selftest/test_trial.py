"""Faults in small graphs go through the truth and through `diff`, and the two agree."""

from __future__ import annotations

from mindgap_campaign.selftest.failures import try_failures
from mindgap_campaign.selftest.report import SelftestReport
from mindgap_campaign.selftest.trial import try_subject


def test_faults_in_a_program_are_found_and_blamed() -> None:
    trials = [try_subject(name, 5, 16) for name in ("convnet", "in_place", "mlp@bfloat16")]
    report = SelftestReport(tuple(row for t in trials for row in t.rows))
    assert report.faults >= 20 and report.benign >= 15
    assert report.passed, report.to_text()
    assert all(row.verdict == "identical" for row in report.cases if row.fault == "no fault")


def test_the_same_seed_tries_the_same_and_finds_the_same() -> None:
    def plain(seed: int) -> list[tuple[str, str, float, str | None]]:
        return [(r.fault, r.op, r.at_output, r.verdict) for r in try_subject("pointwise", seed, 8).rows]

    assert plain(2) == plain(2) != plain(3)


def test_a_subject_that_cannot_be_made_is_skipped_with_its_reason() -> None:
    trials = try_subject("timm:no_such_model", 0, 4)
    assert trials.rows == () and "no_such_model" in trials.skipped


def test_a_crash_is_found_through_real_workers() -> None:
    (row,) = try_failures(quick=True, seed=0)
    assert (row.status, row.verdict, row.found, row.right) == ("crash", "failed", True, True)
