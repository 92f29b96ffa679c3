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
        reasons = (*own.reasons, left_open)
        about = dataclasses.replace(own, status=status, detail=joined(own.detail, sentence(left_open)), reasons=reasons)
        return dataclasses.replace(row, own_path=about)
    exported = sized.runs[0].apart
    limit = max(OTHER, 10 * (exported or 0))
    wrong = [each for each in sized.runs[1:] if each.apart is None or each.apart > max(limit, 10 * each.moves)]
    wrong = [sized.runs[0]] if exported is None else wrong
    sizes = ", ".join(each.words for each in sized.runs)
    # What fails without dynamic dimensions too is no fault of theirs: the row has it already.
    if not wrong or (exported is None and own.status == "failed"):
        about = f"one export with dynamic dimensions is right at {sizes}{left_out}"
        about = "with dynamic dimensions it fails too" if wrong else about
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
    # An export that is right at another size holds no size: where it only fails, the runtime refuses that size.
    held = exported is None or any(each.apart is not None for each in wrong) or len(wrong) == len(sized.runs) - 1
    reasons = (wrong_sizes, *causes) if held else causes
    fault = Fault(submodule_culprit(located.path, line), "export", detail=text, reasons=reasons)
    return with_fault(row, fault, dataclasses.replace(own, status="differs", detail=joined(own.detail, detail)))


def _size_text(run: SizeRun) -> str:
    if run.apart is None:
        return run.message
    return "another shape, or NaN or infinity" if run.apart == math.inf else f"off by {run.apart:.2g}"
