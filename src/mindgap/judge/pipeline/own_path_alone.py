"""Judges a program that cannot be captured: its own export is compared with eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from mindgap.graph import Array
from mindgap.graph.compare.metrics import distance, not_finite
from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.verdict import Weakness
from mindgap.judge.pipeline.outcome_rows import not_run
from mindgap.judge.pipeline.own_path import Locate, fault_of
from mindgap.judge.pipeline.own_path_comparison import (
    Compared,
    eager_sides,
    failure_words,
    others_words,
    second_compared,
)
from mindgap.judge.pipeline.own_path_reasons import own_path_of, with_fault
from mindgap.own_path.runs import OwnRun, Sensitivity
from mindgap.own_path.sizes import FAR
from mindgap.platforms.name import PlatformName
from mindgap.results.quantisation_cost import forms
from mindgap.results.reason_words import random_words, sentence
from mindgap.results.rows import Row

#: Outputs that are further off than this many times what eager mode moves by (`sensitivity`) are a finding.
_BEYOND: Final = 16.0
#: Outputs that are no further off than this many times that, or than eager mode is from float64, are rounding.
_WITHIN: Final = 4.0
_BOUNDED: Final = (
    "without a captured graph the bound is how far eager mode is from float64, and moves with its arguments and "
    "parameters"
)


def row_without_graph(
    name: str, platform: PlatformName, run: OwnRun | None, locate: Locate, sensitivity: Callable[[], Sensitivity]
) -> Row:
    """Returns the row of a program that cannot be captured, by what its own export gave.

    Equal bits are `identical`. What is no further off than eager mode is from itself in float64 (`sensitivity`), or
    moves if arguments and parameters are rounded, is `rounding`, on weaker evidence. A failure, other shapes or dtypes,
    and what is much further off than that, are findings. Anything between is not judged.
    """
    if run is None or not run.fed:
        why = run.reason if run is not None else "this platform exports nothing"
        why = f"the program cannot be captured, and {why}"
        return not_run(name, platform, Reason("own_path", message=why))
    row = Row(name, platform, "ok", None)
    if run.outputs is None:
        failed = Compared("failed", failure_words(run), None, "eager", run.failure_reasons)
        fault, weak = fault_of(run, failed, locate)
        return with_fault(replace(row, weaknesses=weak), fault, own_path_of(run, "failed", failed.text))
    compared = _difference(run)
    apart, text = compared.apart or 0.0, compared.text
    ours, expected = eager_sides(run, compared.against)
    if apart == 0.0:
        about = own_path_of(run, "same", "")
        return replace(measured(row, ours, expected), verdict="identical", own_path=about)
    off = Sensitivity() if run.draws or apart == math.inf else sensitivity()
    within = max([_WITHIN * each for each in (off.moved, off.exact) if each < math.inf], default=0.0)
    if compared.against == "eager" and apart <= within:
        about = own_path_of(run, "rounding", f"{text}; {_BOUNDED}")
        weak = (Weakness(-1, "the whole program", "captured graph", _BOUNDED),)
        return replace(
            measured(row, ours, expected), verdict="rounding", detail=about.detail, own_path=about, weaknesses=weak,
            reasons=(Reason("own_path"),),
        )  # fmt: skip
    if apart < FAR or (apart < math.inf and (run.draws or apart <= _BEYOND * off.moved)):
        why = Reason("no_graph", size=apart)
        detail = f"{text}; {random_words(()) if run.draws else sentence(why)}"
        return replace(
            measured(row, ours, expected), unjudged=True, detail=detail, own_path=own_path_of(run, "unjudged", detail),
            reasons=(Reason("own_path"), *(() if run.draws else (why,))),
        )  # fmt: skip
    about = own_path_of(run, "differs", text, compared.reasons)
    fault, weak = fault_of(run, compared, locate)
    return with_fault(replace(row, weaknesses=weak), fault, about, (ours, expected))


def _difference(run: OwnRun) -> Compared:
    """What the outputs are compared with, and how far they are off: those on the given arguments, or of a second call
    or on other arguments where these show more."""
    ours = run.outputs or ()
    apart = distance(ours, run.eager[: len(ours)])
    text = f"{run.words} {off_words(ours, run.eager[: len(ours)], apart, 'eager mode')}"
    first = Compared("differs", text, apart, "eager")
    if apart >= FAR or run.draws:
        return replace(first, reasons=(Reason("fixed_value", size=apart),)) if run.first else first
    if (second := second_compared(run)) is not None:
        return second
    others = distance(run.other_outputs, run.other_eager) if run.other_outputs else 0.0
    if others >= FAR:
        return Compared("differs", others_words(run, others), others, "others", (Reason("fixed_value", size=others),))
    return first


def off_words(ours: Sequence[Array], theirs: Sequence[Array], apart: float, than: str) -> str:
    """How outputs differ from others, in words: by their forms, by values that are not finite, or by `apart`."""
    if forms(ours) != forms(theirs):
        return f"has outputs of other shapes or dtypes than {than}"
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.dtype.kind not in "biu"]
    other = sum(int((not_finite(a) != not_finite(b)).sum()) for a, b in pairs)
    if other:
        count = sum(a.size for a in ours)
        return f"has NaN or infinity at other elements than {than}, or others there: {other} of {count}"
    return f"is {apart:.2g} of the largest magnitude off {than}"


def measured(row: Row, ours: Sequence[Array], expected: Sequence[Array]) -> Row:
    from mindgap.judge.trace.metrics import fixed_tolerances, row_metrics

    return replace(row, metrics=row_metrics(ours, expected, None), profiles=fixed_tolerances(ours, expected))
