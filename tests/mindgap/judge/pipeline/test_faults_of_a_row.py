"""Several faults of a platform reach the row, JSON, the store, the page and the terminal, through a real platform."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mindgap.cli.tables import print_report
from mindgap.graph.compare.verdict import Fault
from mindgap.graph.tensors import TensorStore
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.pipeline.own_path_reasons import submodule_culprit, with_fault
from mindgap.platforms.name import CPU_EAGER, parse
from mindgap.report.page import html_page
from mindgap.results.report_json import decode_report
from mindgap.results.rows import OwnPath, Report, Row
from mindgap.results.settings import RunSettings
from mindgap_campaign.selftest.subjects import graph_of
from mindgap_campaign.selftest.trial import InProcessExecutor

NUDGE = 'kind = "wrong_element"\nindex = 3\nadd = 0.5'


def report(tmp_path: Path, faults: dict[str, str], subject: str = "mlp") -> tuple[Row, Report]:
    """Of a platform with a fault at each operator."""
    tensors = TensorStore(tmp_path / "tensors")
    graph = graph_of(subject, 0, tensors)
    file = tmp_path / "faults.toml"
    file.write_text("".join(f'[[fault]]\n{what}\nwhen = {{ op = "aten.{op}*" }}\n' for op, what in faults.items()))
    context = RunContext(InProcessExecutor(tensors), RunSettings(), tensors)
    comparison = GraphComparison(context, subject, graph)
    row = comparison.row(parse(f"faulty/eager@faults={file}"))
    return row, Report(CPU_EAGER, (), (comparison.model({}),), (row,))


def operators(row: Row) -> list[str]:
    return [each.culprit.op.split(".")[1] for each in row.faults if each.culprit is not None]


def test_three_faults_one_of_them_at_two_nodes(tmp_path: Path) -> None:
    row, found = report(tmp_path, {"linear": NUDGE, "layer_norm": NUDGE, "softmax": NUDGE})
    assert operators(row) == ["linear", "layer_norm", "softmax"]
    assert [each.nodes for each in row.faults] == [(0, 3), (2,), (4,)]
    assert row.culprit == row.faults[0].culprit and row.blame == "platform"
    assert all(each.detail and each.example is not None and each.blame == "platform" for each in row.faults)
    assert decode_report(found.to_json()) == found
    assert "fault 3 of 3" in html_page(found)
    out = io.StringIO()
    print_report(found, out)
    for op in ("aten.linear.default", "aten.layer_norm.default", "aten.softmax.int"):
        assert out.getvalue().count(f"  culprit  {op} (node") == 1
    assert "1 finding with 3 faults" in out.getvalue()


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        # The softmax gives 1 everywhere, whatever it reads.
        ({"gelu": NUDGE, "softmax": 'kind = "scaled"\nfactor = 0.0'}, ["gelu", "softmax"]),
        # NaN hides what is added later.
        ({"gelu": 'kind = "nan_to_zero"', "linear": NUDGE}, ["linear"]),
    ],
)
def test_a_fault_is_found_though_another_hides_it(
    tmp_path: Path, faults: dict[str, str], expected: list[str]
) -> None:  # fmt: skip
    row, _ = report(tmp_path, faults)
    assert operators(row) == expected


def test_one_fault_is_one_line(tmp_path: Path) -> None:
    row, found = report(tmp_path, {"gelu": NUDGE})
    assert operators(row) == ["gelu"] and len(row.by_fault) == 1
    assert "fault 1 of" not in html_page(found)
    out = io.StringIO()
    print_report(found, out)
    assert out.getvalue().count("  culprit  ") == 1 and "1 finding\n" in out.getvalue()


def test_a_confirmed_operator_comes_before_an_export_that_nothing_locates(tmp_path: Path) -> None:
    """It led the row in one run of six: what reads unwritten memory is off by another amount each time."""
    row, _ = report(tmp_path, {"gelu": NUDGE})
    about = OwnPath("differs", "torch.compile")
    for path, line, first in (("", "", "aten.gelu.default"), ("head", "", "submodule head"), ("", "m.py:4", "")):
        export = Fault(submodule_culprit(path, line), "export", detail="torch.compile gives other outputs")
        found = with_fault(row, export, about)
        assert found.culprit is not None and found.culprit.op.startswith(first) and len(found.faults) == 2
        assert (found.verdict == "export") == bool(path or line)
