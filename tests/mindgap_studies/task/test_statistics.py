"""Intervals and tests against SciPy, calibration and perplexity against cases that are counted by hand."""

import math

import pytest
from scipy.stats import binomtest

from mindgap_studies.task.statistics import calibration_error, mcnemar, perplexity
from mindgap_surveys.shares import wilson


@pytest.mark.parametrize(("count", "of"), [(0, 10), (3, 10), (36, 500), (10, 10), (1, 50_000)])
def test_wilson_is_scipys(count: int, of: int) -> None:
    expected = binomtest(count, of).proportion_ci(0.95, "wilson")
    found = wilson(count, of)
    assert found.value == count / of
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_a_share_of_nothing_is_none() -> None:
    with pytest.raises(ValueError, match="0 of 0"):
        wilson(0, 0)


@pytest.mark.parametrize(
    ("lost", "gained"), [(0, 0), (0, 1), (0, 6), (3, 1), (5, 5), (76, 47), (1200, 1100), (40_000, 40_400)]
)
def test_mcnemar_is_the_two_sided_binomial_test(lost: int, gained: int) -> None:
    expected = binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    assert mcnemar(lost, gained) == pytest.approx(expected, rel=1e-9)


def test_calibration_error_weighs_the_bins_by_their_samples() -> None:
    # Two bins of 15: three samples of confidence 0.9, two of them right; one of 0.35, wrong.
    found = calibration_error([0.9, 0.9, 0.9, 0.35], [True, True, False, False])
    assert found == pytest.approx((3 * abs(2 / 3 - 0.9) + 0.35) / 4)
    # 1/15 belongs to the first bin, anything above it to the second: each bin errs by its own.
    assert calibration_error([1 / 15, 1 / 15 + 1e-9], [True, False]) == pytest.approx((1 - 1 / 15 + 1 / 15) / 2)
    assert calibration_error([1.0, 0.0], [True, False]) == 0
    assert calibration_error([], []) is None and calibration_error([math.nan], [True]) is None


def test_perplexity_of_a_guess_among_eight_is_eight() -> None:
    assert perplexity([math.log(8), math.log(8)], [10, 3]) == pytest.approx(8)
    # Texts count by their tokens: 1 token at 1 nat, 3 at 2.
    assert perplexity([1.0, 2.0], [1, 3]) == pytest.approx(math.exp(7 / 4))
    assert perplexity([], []) is None and perplexity([1e9], [1]) == math.inf
