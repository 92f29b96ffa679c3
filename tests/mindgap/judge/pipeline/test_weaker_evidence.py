"""A rule that is missing reaches the page: oracle, judgement, row, JSON, store, page, terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mindgap.cli.tables import print_report
from mindgap.graph import Graph
from mindgap.graph.compare.verdict import Weakness
from mindgap.graph.tensors import TensorStore
from mindgap.judge.oracle.bounds import rules
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.trace import independent
from mindgap.platforms.name import CPU_EAGER, parse
from mindgap.report.page import html_page
from mindgap.results.from_store import report_of
from mindgap.results.recording import recording
from mindgap.results.report_json import decode_report
from mindgap.results.rows import PlatformFacts, Report
from mindgap.results.settings import RunSettings
from mindgap.results.store import Store
from mindgap_campaign.selftest.subjects import graph_of
from mindgap_campaign.selftest.trial import InProcessExecutor

GELU = "aten.gelu.default"


def report(tmp_path: Path, ulp: int) -> tuple[Report, Graph, Store]:
    """Of a platform that is wrong by so many ulp at every gelu, also written to a store."""
    tensors = TensorStore(tmp_path / "tensors")
    graph = graph_of("mlp", 0, tensors)
    file = tmp_path / "faults.toml"
    file.write_text(f'[[fault]]\nkind = "noise"\nulp = {ulp}\nwhen = {{ op = "{GELU}" }}\n')
    platform, settings = parse(f"faulty/eager@faults={file}"), RunSettings(trace=False)
    execute, store = InProcessExecutor(tensors), Store(tmp_path / "store")
    comparison = GraphComparison(RunContext(execute, settings, tensors), "mlp", graph)
    facts = [PlatformFacts(name, name, True) for name in (CPU_EAGER, platform)]
    with recording(store, settings, lambda _: {}) as record:
        record.begin("2026-11-22T00:00:00+00:00", "0", facts, [platform])
        record.graph("mlp", graph)
        record.model(0, comparison.model({}), comparison.reference)
        row = comparison.row(platform)
        record.row(graph, row, comparison.outcomes[platform])
        record.finish(1.0)
    found = Report(CPU_EAGER, tuple(facts), (comparison.model({}),), (row,), (), "2026-11-22T00:00:00+00:00", "0", 1.0)
    return found, graph, store


def test_a_missing_bound_rule_reaches_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(rules._RULES, "gelu")
    found, graph, store = report(tmp_path, 1)
    (row,) = found.rows
    node = [n.op for n in graph.nodes].index(GELU)
    weak = Weakness(node, GELU, "bound rule", "the operator has no bound rule")
    assert row.verdict == "rounding" and row.weaknesses == (weak,)
    assert decode_report(found.to_json()).rows[0].weaknesses == (weak,)
    assert report_of(store).rows[0].weaknesses == (weak,)
    sentence = f"judged on weaker evidence: {GELU} (bound rule: the operator has no bound rule)"
    assert sentence in html_page(found)
    out = io.StringIO()
    print_report(found, out, verbose=True)
    assert sentence in out.getvalue()


def test_an_implementation_that_raises_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a later PyTorch renames what the independent formulation calls."""

    def renamed(*_: object) -> None:
        raise AttributeError("module 'torch' has no attribute 'gelu_backward'")

    renamed.__name__ = "_by_decomposition"
    monkeypatch.setattr(independent, "_by_decomposition", renamed)
    monkeypatch.setattr(independent, "_by_reference", renamed)
    found, _, _ = report(tmp_path, 1 << 19)
    (row,) = found.rows
    assert row.finding and row.culprit is not None and row.culprit.op == GELU
    (weak, *_) = row.weaknesses
    assert weak.missing == "independent implementation" and "no attribute 'gelu_backward'" in weak.reason


def test_nothing_is_missing_where_every_operator_has_a_rule(tmp_path: Path) -> None:
    found, _, _ = report(tmp_path, 1)
    assert found.rows[0].weaknesses == () and "weaker evidence" not in html_page(found)
