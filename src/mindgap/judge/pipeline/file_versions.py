"""Compares a model file's runs on two platforms that both read it, as on two versions of a runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final, Literal

from mindgap.graph import Array
from mindgap.graph.compare.culprit import SubmoduleCulprit
from mindgap.graph.compare.metrics import distance
from mindgap.graph.compare.verdict import Blame, Fault
from mindgap.judge.pipeline.file_faults import faults_of_nodes, is_named
from mindgap.judge.pipeline.file_rows import NodesOn, near, same_bits
from mindgap.judge.pipeline.own_path_alone import measured, off_words
from mindgap.judge.pipeline.own_path_reasons import own_path_of, with_fault
from mindgap.own_path.runs import OwnRun
from mindgap.results.quantisation_cost import forms
from mindgap.results.rows import Row

#: One side is wrong, and the other right, where it is so many times further from the expected outputs.
_FURTHER: Final = 4.0

#: Whether outputs are further from the right ones than rounding leads; None where that is not known.
IsFar = Callable[[Sequence[Array]], bool | None]


def with_file_versions(row: Row, base: OwnRun, run: OwnRun, is_far: IsFar, nodes: NodesOn) -> Row:
    """Returns the row of a captured graph with the difference of the file itself.

    base, run: the file on the reference platform and on the row's, with the outputs that are expected (`eager`).
    """
    words, before = run.words, str(base.platform)
    if not base.fed or not run.fed or (base.outputs is None and run.outputs is None):
        why = f"{words} was not compared: {run.reason or base.reason}"
        return dataclasses.replace(row, own_path=own_path_of(run, "not_compared", why))
    if run.outputs is None:
        text = f"{words} runs on {before}, and fails here: {run.reason}"
        if run.refused:
            return dataclasses.replace(row, status="unsupported", verdict=None, message=text)
        faults = faults_of_nodes(nodes(run.platform, None)) or [Fault(_WHOLE, "failed", "platform", detail=text)]
        return _with_faults(row, faults, run, text, None)
    if base.outputs is None:
        text = f"{words} fails on {before}: {base.reason}; it runs here"
        gained = dataclasses.replace(row, verdict=None, detail=text, own_path=own_path_of(run, "not_compared", text))
        return row if row.finding else gained
    if same_bits(run.outputs, base.outputs):
        about = own_path_of(run, "same", f"{words} gives the bits of {before}")
        return dataclasses.replace(row, verdict=row.verdict or "identical", own_path=about)
    apart = distance(run.outputs, base.outputs)
    text = f"{words} {off_words(run.outputs, base.outputs, apart, f'the same file on {before}')}"
    blame = _blamed(base, run, is_far)
    if blame == "neither":
        calm = measured(row, run.outputs, base.outputs)
        calm = dataclasses.replace(calm, verdict="rounding", detail=text) if row.verdict in (None, "identical") else row
        return dataclasses.replace(calm, own_path=own_path_of(run, "rounding", text))
    versions = nodes((base if blame == "reference" else run).platform, apart)
    if is_named(row, versions):
        return dataclasses.replace(row, own_path=own_path_of(run, "differs", text))
    faults = [dataclasses.replace(each, blame=blame) for each in faults_of_nodes(versions)]
    other = forms(run.outputs) != forms(base.outputs)
    fault = Fault(_WHOLE, "structural" if other else "discrepant", blame, detail=text)
    return _with_faults(row, faults or [fault], run, text, (run.outputs, base.outputs))


#: What is named where no node is.
_WHOLE: Final = SubmoduleCulprit("", "")


def _blamed(base: OwnRun, run: OwnRun, is_far: IsFar) -> Blame | Literal["neither"]:
    """Which of two versions is wrong: "platform" is the row's, "neither" where rounding explains both."""
    ours, theirs = run.outputs or (), base.outputs or ()
    expected = run.eager or base.eager
    if not expected or forms(expected) != forms(ours):
        return "neither" if near(ours, theirs) else "undecided"
    far, base_far = is_far(ours), is_far(theirs)
    if far is False and base_far is False:
        return "neither"
    off, base_off = distance(ours, expected), distance(theirs, expected)
    if far is not False and off > base_off * _FURTHER:
        return "platform"
    if base_far is not False and base_off > off * _FURTHER:
        return "reference"
    # Both are off alike, as where both compute in fewer bits.
    return "neither" if distance(ours, theirs) <= max(off, base_off) else "undecided"


def _with_faults(
    row: Row, faults: Sequence[Fault], run: OwnRun, text: str, sides: tuple[Sequence[Array], Sequence[Array]] | None
) -> Row:
    for fault in faults:
        about = own_path_of(run, "failed" if sides is None else "differs", text)
        row = with_fault(dataclasses.replace(row, status="ok"), fault, about, sides)
    return row
