"""The page of a trace: every value, the culprit, and a chart that a browser draws, also for a thousand nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mindgap.judge.trace.value_trace import ProbeReport, TracedOutput, TracedValue, ValueTrace
from mindgap.report.trace_page import trace_page
from report.test_page import browse, needs_chromium


def value(number: int, **fields: Any) -> TracedValue:
    where = f"layer{number} (m.py:{number})"
    return TracedValue(number, number, 0, "aten.add.Tensor", where, "float32[4]", **{"state": "equal", **fields})


def trace(size: int) -> ValueTrace:
    """The first tenth equal, one value not seen, the rest growing; the last one infinitely far."""
    values = [value(n, digests=("a" * 32, "a" * 32), mad=0.0, rate=0.0, n_differing=0, n=4) for n in range(size // 10)]
    values.append(value(size // 10, state="inside", note="looking at it changes the outputs"))
    for n in range(size // 10 + 1, size):
        role = "introduces" if n == size // 10 + 1 else "propagates"
        mad = float("inf") if n == size - 1 else 1e-7 * 1.01**n
        values.append(value(n, state="differs", digests=("b" * 32, "c" * 32), mad=mad, rate=0.01, role=role))
    first = size // 10 + 1
    return ValueTrace(
        "model<script>", "onnxruntime/cpu", "cpu/eager", tuple(values),
        (TracedOutput("logits", "float32[4]", False, ("b" * 32, "c" * 32)),),
        (ProbeReport("onnxruntime/cpu", "yes", (first - 1,), ()), ProbeReport("cpu/eager", "no", (), ())),
        first, (first - 1, first), ("aten.mul.Tensor", "aten.add.Tensor"),
    )  # fmt: skip


def test_every_value_is_in_the_table_and_the_culprit_above_it() -> None:
    page = trace_page(trace(100))
    assert len(re.findall(r'<tr id="v-\d+"', page)) == 100
    assert "aten.mul.Tensor + aten.add.Tensor" in page and "nodes 10, 11" in page
    assert re.findall(r"<b>(\d+)</b>", page) == ["10", "89", "1"]
    assert '<a href="#v-10">aten.add.Tensor (node 10)</a>' in page and "model&lt;script&gt;" in page


def test_equal_sides_have_no_chart() -> None:
    same = trace(20).values[:2]
    page = trace_page(ValueTrace("m", "p", "r", same, (), (ProbeReport("p", "no", (), ()),) * 2))
    assert "Every digest is equal" in page and "chart-distance" not in page


@pytest.mark.nightly
@pytest.mark.browser
@needs_chromium
def test_a_browser_draws_a_thousand_nodes(tmp_path: Path) -> None:
    drawn, complaints = browse(trace_page(trace(1000)), tmp_path)
    assert not complaints
    chart = drawn[drawn.index('id="chart-distance"') :].split("</svg>")[0]
    assert chart.count("<path") > 800 and "mean absolute distance" in chart
    assert 'data-show="turning"' in drawn
