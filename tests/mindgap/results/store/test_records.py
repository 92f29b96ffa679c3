"""Outcomes, graphs and metrics survive the way into columns and back."""

from __future__ import annotations

import math
import uuid
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mindgap.graph import Graph, Input, Stored, digest
from mindgap.graph.compare.digest import digested
from mindgap.results.store import Store, graph_row, metric_columns, metrics_of, outcome_of, outcome_row
from mindgap.results.store.tables import METRICS
from mindgap.run.outcome import Outcome
from results.store.store_rows import small_graph

texts = st.text(max_size=20)
arrays = st.sampled_from(
    [
        np.arange(20, dtype=np.float32).reshape(4, 5),
        np.array([np.nan, np.inf, -np.inf, -0.0]),
        np.zeros((0, 3), np.int64),
        np.array(True),
        np.array([1.5, 2.5], ml_dtypes.bfloat16),
        np.array([1 + 2j], np.complex64),
    ]
)
outcomes = st.builds(
    Outcome,
    platform=texts,
    graph=texts,
    status=st.sampled_from(["ok", "unsupported", "crash", "nondeterministic"]),
    outputs=st.lists(arrays.map(digested), max_size=3).map(tuple),
    message=texts,
    signature=texts,
    op=st.none() | texts,
    timings=st.dictionaries(st.sampled_from(["load", "run"]), st.floats(0, 1e9)),
    fingerprint=texts,
)
values = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.sampled_from(["inf", "nan", "other"])
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("records"))


@settings(max_examples=15, deadline=None)
@given(given_outcomes=st.lists(outcomes, min_size=1, max_size=5))
def test_outcomes_come_back_equal(store: Store, given_outcomes: list[Outcome]) -> None:
    run = uuid.uuid4().hex
    store.append("outcomes", [outcome_row(run, str(n), given) for n, given in enumerate(given_outcomes)])
    back = store.rows("SELECT * FROM outcomes WHERE run = ? ORDER BY model::int", [run])
    # NaN in a sample equals nothing, itself least of all: compared as they are written.
    assert repr([outcome_of(row) for row in back]) == repr(given_outcomes)


def test_a_message_that_is_no_unicode_is_kept_as_far_as_it_is(store: Store) -> None:
    outcome = Outcome("p", "g", "crash", message="before \udcff after")
    store.append("outcomes", outcome_row("surrogate", "", outcome))
    (row,) = store.rows("SELECT message FROM outcomes WHERE run = 'surrogate'")
    assert row == {"message": "before ? after"}


@given(metrics=st.dictionaries(st.sampled_from([*METRICS, "cut", "reference"]), values, max_size=8))
def test_metrics_come_back_equal_to_the_type(metrics: dict[str, Any]) -> None:
    def exact(found: dict[str, Any]) -> dict[str, str]:
        return {name: f"{type(value).__name__} {value!r}" for name, value in found.items()}

    assert exact(metrics_of(metric_columns(metrics))) == exact(metrics)


def test_figures_are_numbers_to_a_query(store: Store) -> None:
    key = {"run": "m", "graph": "g", "platform": "p", "reference": "q"}
    found = ({"max_abs": 3, "max_ulp": 2**63}, {"max_abs": "inf"}, {"max_abs": math.nan}, {"max_abs": None})
    store.append("verdicts", [{**key, "model": str(n), **metric_columns(each)} for n, each in enumerate(found)])
    rows = store.rows("SELECT max_abs, max_ulp FROM verdicts WHERE run = 'm' ORDER BY model")
    assert rows[0] == {"max_abs": 3.0, "max_ulp": 2**63}
    assert rows[1]["max_abs"] == math.inf and math.isnan(rows[2]["max_abs"]) and rows[3]["max_abs"] is None


def test_a_graph_row_says_what_the_graph_is_and_needs(tmp_path: Path) -> None:
    graph = small_graph()
    weighted = Graph((Input(graph.inputs[0].spec, Stored("a" * 64)),), graph.nodes, graph.outputs)
    row = graph_row(weighted, name="n", source="timm:x")
    assert row["graph"] == digest(weighted) and row["tensors"] == ["a" * 64]
    assert row["nodes"] == 1 and row["operators"] == ["aten.relu.default"]
    assert row["structure"] == graph_row(Graph(weighted.inputs, weighted.nodes, weighted.outputs))["structure"]
    assert graph_row(graph)["tensors"] == []
    store = Store(tmp_path)
    store.append("graphs", [row, graph_row(graph)])
    assert (
        store.rows("SELECT count(*) AS n FROM graphs WHERE list_contains(operators, 'aten.relu.default')")[0]["n"] == 2
    )
