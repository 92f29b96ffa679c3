"""Estimates of slow-downs and their intervals."""

import math
from statistics import median

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mindgap_studies.porting.slowdown import first_call, order_interval, paper_estimate, steady
from mindgap_studies.results.ported_functions import Latency


def drawn(rng: np.random.Generator, processes: int, rounds: int, ratio: float) -> Latency:
    """Both sides with noise of their own; the ratio of a process moves by 10 %."""
    moved = ratio * np.exp(rng.normal(0, 0.1, processes))
    source = np.exp(rng.normal(0, 0.3, (processes, rounds)))
    target = moved[:, None] * np.exp(rng.normal(0, 0.3, (processes, rounds)))
    return Latency(
        "x", tuple(source[:, 0]), tuple(target[:, 0]), tuple(map(tuple, source)), tuple(map(tuple, target))
    )  # fmt: skip


def test_intervals_hold_the_true_ratio_as_often_as_they_say_and_two_studies_agree() -> None:
    rng = np.random.default_rng(0)
    pairs = [(steady(drawn(rng, 3, 15, 4.0)), steady(drawn(rng, 3, 15, 4.0))) for _ in range(400)]
    covered = sum(one.low <= 4.0 <= one.high for one, _ in pairs) / len(pairs)
    assert covered >= 0.95
    assert sum(one.agrees(other) for one, other in pairs) / len(pairs) >= 0.99


def test_a_ratio_that_is_another_is_seen() -> None:
    rng = np.random.default_rng(1)
    pairs = [(steady(drawn(rng, 3, 15, 1.0)), steady(drawn(rng, 3, 15, 10.0))) for _ in range(50)]
    assert sum(one.agrees(other) for one, other in pairs) <= 2


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=40))
def test_the_interval_of_a_median_holds_it(values: list[float]) -> None:
    low, high = order_interval(values)
    assert min(values) <= low <= median(values) <= high <= max(values)


@pytest.mark.parametrize(("count", "rank"), [(5, 1), (6, 1), (10, 2), (15, 4), (45, 16)])
def test_ranks_are_those_of_the_binomial_distribution(count: int, rank: int) -> None:
    """Ranks as in tables of the sign test: of 15 values the 4th and the 12th."""
    assert order_interval(range(1, count + 1)) == (rank, count + 1 - rank)
    beyond = sum(math.comb(count, k) for k in range(rank)) / 2**count
    assert beyond <= 0.025 or rank == 1


def test_the_papers_estimator_counts_first_calls_and_takes_means() -> None:
    found = Latency("x", (1.0, 3.0), (10.0, 50.0), ((1.0, 1.0),) * 2, ((2.0, 2.0),) * 2)
    assert paper_estimate(found) == 15.0
    assert first_call(found).value == pytest.approx(math.sqrt(10 * 50 / 3))
    assert steady(found).value == 2.0


def test_one_process_has_no_interval_of_its_first_call() -> None:
    alone = Latency("x", (1.0,), (2.0,), ((1.0, 1.0, 1.0),), ((2.0, 3.0, 4.0),))
    assert (first_call(alone).low, first_call(alone).high) == (0.0, math.inf)
    assert (steady(alone).low, steady(alone).high) == (2.0, 4.0) and steady(alone).value == pytest.approx(3.0)
