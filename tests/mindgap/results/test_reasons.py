"""Reasons travel as data: code decides by their kinds, and no sentence is read back."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import mindgap
from mindgap.graph.compare.culprit import SubmoduleCulprit
from mindgap.graph.compare.reason import Reason, ReasonKind, has
from mindgap.graph.compare.verdict import Fault
from mindgap.platforms.delegation import Delegation, computed_before, require_taken
from mindgap.platforms.name import parse
from mindgap.platforms.protocol import Unsupported
from mindgap.results.advice import advised
from mindgap.results.reason_words import sentence, with_sentences
from mindgap.results.report_json import decode_report, encode_report
from mindgap.results.rows import OwnPath, Row
from mindgap.run.local import failure
from mindgap.run.message import outcome_frame, read_outcome
from mindgap.run.outcome import Outcome
from report.report_sample import sample

SOURCES = Path(mindgap.__file__).parent
#: Texts that are made for readers.
TEXTS = {"detail", "advice"}
#: Methods that read a text for what it contains.
READERS = {
    "search", "match", "fullmatch", "findall", "finditer", "startswith", "endswith", "partition", "rpartition", "find",
    "index", "count",
}  # fmt: skip


def reads_text(node: ast.AST) -> bool:
    """Whether an expression is one of a row's texts, or a cleaned one."""
    if isinstance(node, ast.Call) and node.args:
        return reads_text(node.args[0])
    return isinstance(node, ast.Attribute) and node.attr in TEXTS


def searches(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            inside = any(isinstance(each, ast.In | ast.NotIn) for each in node.ops)
            if inside and any(map(reads_text, node.comparators)):
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            read = reads_text(node.func.value) or any(map(reads_text, node.args))
            if read and node.func.attr in READERS:
                yield node


@pytest.mark.parametrize("code", ['"x" in row.detail', "P.search(clean(own.detail))", 'row.advice.startswith("a")'])
def test_the_search_finds_one(code: str) -> None:
    assert [*searches(ast.parse(code))]


def test_no_code_reads_a_text_that_is_made_for_readers() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        for path in SOURCES.rglob("*.py")
        for node in searches(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_every_kind_makes_text_without_a_left_over_field() -> None:
    for kind in get_args(ReasonKind):
        text = sentence(Reason(kind, names=("a", "b"), message="why"))
        assert "{" not in text and not text.endswith(".")
    assert with_sentences("Off", [Reason("fixed_value")]).startswith("Off. A value that was computed")


def export(*reasons: Reason) -> Row:
    fault = Fault(SubmoduleCulprit("net", "net (m.py:3)"), "export", reasons=reasons, detail="NumPy, data-dependent")
    return advised(Row("m", parse("cpu/jit"), "ok", "export", faults=(fault,), culprit=fault.culprit))


def test_advice_follows_the_kind_and_not_the_words() -> None:
    assert export().advice == "", "the detail has PyTorch's words, and no reason"
    assert export(Reason("tensor_value")).advice.startswith("compute with tensors")
    both = export(Reason("fixed_value"), Reason("custom_operator", names=("a::b",)))
    assert both.advice.startswith("write it with PyTorch's own operators"), "the first in the order of kinds"


def test_a_report_keeps_reasons_and_reads_one_without() -> None:
    row = export(Reason("fixed_value", size=0.5, names=("x",)))
    about = OwnPath("differs", "torch.jit.trace", reasons=row.faults[0].reasons)
    row = dataclasses.replace(row, own_path=about, reasons=(Reason("by_export"),))
    report = dataclasses.replace(sample(), rows=(row,))
    (read,) = decode_report(encode_report(report)).rows
    assert (read.reasons, read.own_path, read.faults[0].reasons) == (row.reasons, row.own_path, row.faults[0].reasons)
    (old,) = decode_report(encode_report(report).replace('"reasons"', '"not known yet"')).rows
    assert (old.reasons, old.faults[0].reasons, old.detail) == ((), (), row.detail)


def test_refusals_of_a_delegate_are_typed_and_travel_with_the_outcome() -> None:
    with pytest.raises(Unsupported) as raised:
        require_taken(Delegation("XNNPACK", {}, {"EXP": 1}))
    fields = failure(raised.value)
    assert fields["reason"] == Reason("took_none") and "took none of 1 operators" in fields["message"]
    assert failure(computed_before("ONNX Runtime", "QNN"))["reason"] == Reason("computed_before")
    assert failure(Unsupported("aten.sin", "no kernel"))["reason"] is None
    outcome = Outcome(parse("cpu/jit"), "g", "crash", reason=Reason("worker_killed", stage="starting"))
    header, _ = outcome_frame(outcome, 0)
    read = read_outcome(type("Frame", (), {"header": header, "arrays": ()})(), outcome.platform, "g", "")
    assert read.reason == outcome.reason and has((read.reason,), "worker_killed")
