"""The ranking and the search, on models of platforms whose answer is known."""

import math

import pytest
from hypothesis import given, settings, strategies as st

from mindgap_diagnosis.precision.noise import CALLER, Edge
from mindgap_diagnosis.precision.search import ranked, search

EDGES = st.lists(
    st.tuples(
        st.frozensets(st.integers(0, 7), max_size=2), st.integers(CALLER, 7), st.floats(1e-8, 1.0), st.booleans()
    ),
    max_size=20,
)  # fmt: skip


def model_of(edges: list[Edge]) -> object:
    """Returns a platform whose error is what the edges predict."""

    def measure(kept: frozenset[int]) -> float:
        rounded = [e for e in edges if not (e.roots | {e.reader} - {CALLER}) <= kept]
        return math.inf if any(e.overflows for e in rounded) else sum(e.cost for e in rounded) ** 0.5

    return measure


@settings(deadline=None)
@given(EDGES, st.floats(1e-4, 2.0))
def test_the_list_meets_the_bound_and_no_operator_can_be_given_back(raw: list, bound: float) -> None:
    edges = [Edge(roots, reader, over, False, cost) for roots, reader, cost, over in raw]
    measure = model_of(edges)
    found = search(ranked(8, edges), measure, bound, 100)
    kept = frozenset(found.kept)
    assert found.after == measure(kept) <= bound
    assert all(measure(kept - {each}) > bound for each in kept)
    assert all(found.given_back[each] > bound for each in kept)


def test_two_operators_that_are_exact_only_together_are_ranked_together() -> None:
    edges = [Edge(frozenset((2,)), 5, True), *(Edge(frozenset((n,)), n + 1, cost=1e-4) for n in (0, 3, 6))]
    ranking = ranked(8, edges)
    assert set(ranking.order[:2]) == {2, 5}
    found = search(ranking, model_of(edges), 0.1)
    assert set(found.kept) == {2, 5}
    assert found.before == math.inf
    assert found.runs <= 6


def test_nothing_is_kept_where_the_bound_is_met_by_the_first_run() -> None:
    found = search(ranked(3, []), lambda kept: 0.5, 0.5)
    assert (found.kept, found.runs, found.all_wide) == ((), 1, None)


def test_a_bound_that_nothing_meets_keeps_all() -> None:
    found = search(ranked(3, []), lambda kept: 1.0 - len(kept) / 10, 0.5)
    assert len(found.kept) == 3
    assert found.after == pytest.approx(0.7)


def test_runs_stay_near_the_limit_by_giving_back_several_at_a_time() -> None:
    edges = [Edge(frozenset((n,)), n + 1, True) for n in range(60)]
    found = search(ranked(100, edges), model_of(edges), 0.1, 25)
    assert found.runs <= 26
    assert not found.proved
    assert set(found.kept) >= set(range(61))
