"""Judges one export with dynamic dimensions, run at several sizes, next to the row of the captured graph."""

from __future__ import annotations

import dataclasses
import math

from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.verdict import Fault
from mindgap.judge.pipeline.own_path import Locate
from mindgap.judge.pipeline.own_path_comparison import OTHER
from mindgap.judge.pipeline.own_path_reasons import line_of, submodule_culprit, where_words, why, with_fault
from mindgap.own_path.runs import Located, OwnRun, ShownDifference, SizedRuns
from mindgap.own_path.sizes import SizeRun
from mindgap.results.reason_words import joined, sentence, with_sentences
from mindgap.results.rows import OwnPath, Row


def with_sizes(row: Row, sized: SizedRuns, run: OwnRun, locate: Locate) -> Row:
    """Returns the row with what one export with dynamic dimensions gave at several sizes."""
    own = row.own_path or OwnPath("not_compared")
    left_out = f"; the program itself refuses {', '.join(sized.left_out)}" if sized.left_out else ""
    if not sized.runs:
        left_open = Reason("sizes_not_compared", message=sized.reason)
        status = own.status if own.status in ("differs", "failed") else "not_compared"
        about = dataclasses.replace(
            own, status=status, detail=joined(own.detail, sentence(left_open)), reasons=(*own.reasons, left_open)
        )
        return dataclasses.replace(row, own_path=about)
    exported = sized.runs[0].apart
    if exported is None:
        wrong = [sized.runs[0]]
    else:
        limit = max(OTHER, 10 * exported)
        wrong = [each for each in sized.runs[1:] if each.apart is None or each.apart > limit]
    sizes = ", ".join(each.words for each in sized.runs)
    if not wrong:
        about = f"one export with dynamic dimensions is right at {sizes}{left_out}"
        return dataclasses.replace(row, own_path=dataclasses.replace(own, detail=joined(own.detail, about)))
    alike: dict[str, list[str]] = {}
    for each in wrong:
        alike.setdefault(_size_text(each), []).append(each.words)
    said = "; ".join(f"at {', '.join(words)}: {text}" for text, words in alike.items())
    wrong_sizes = Reason("dynamic_size", message=own.way or "the export")
    detail = f"{sentence(wrong_sizes)}: {said} (of {sizes}){left_out}"
    at = next(
        (ShownDifference(each.apart, at=each.words) for each in wrong if "=" in each.words),
        ShownDifference(None, at=sized.at),
    )
    located = (locate(at) if at.at else None) or Located("", "")
    line = next((each.line for each in wrong if each.line), line_of(run, located.path)) or located.line
    causes = why(run, located.path)
    text = with_sentences(f"{detail}{where_words(located, run)}", causes)
    fault = Fault(submodule_culprit(located.path, line), "export", detail=text, reasons=(wrong_sizes, *causes))
    return with_fault(row, fault, dataclasses.replace(own, status="differs", detail=joined(own.detail, detail)))


def _size_text(run: SizeRun) -> str:
    if run.apart is None:
        return run.message
    return "another shape, or NaN or infinity" if run.apart == math.inf else f"off by {run.apart:.2g}"
