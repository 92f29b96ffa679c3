"""Judges a model file that has no translation: its runs on platforms are compared with each other, and with that of the
format's reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mindgap.graph import Array
from mindgap.graph.compare.culprit import SubmoduleCulprit
from mindgap.graph.compare.metrics import distance
from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.verdict import Fault
from mindgap.judge.pipeline.file_faults import faults_of_nodes
from mindgap.judge.pipeline.outcome_rows import not_run
from mindgap.judge.pipeline.own_path_alone import measured, off_words
from mindgap.judge.pipeline.own_path_reasons import own_path_of, with_fault
from mindgap.own_path.runs import FileNodes, OwnRun
from mindgap.platforms.name import PlatformName
from mindgap.results.quantisation_cost import forms
from mindgap.results.rows import Row

#: Runs of a file by platform; None where the platform does not read it.
Runs = Mapping[PlatformName, OwnRun | None]
#: The detail of a row is of the file.
_OF_FILE: Final = (Reason("own_path"),)
#: Finds the nodes of a file that a platform computes otherwise, and how far the file is off there.
NodesOn = Callable[[PlatformName, float | None], FileNodes]


def rows_of_file(
    name: str, runs: Runs, reason: str, witnesses: Runs | None = None, nodes: NodesOn | None = None,
    valid: bool = True,
) -> list[Row]:  # fmt: skip
    """Returns a row for each platform on which a model file without a translation was to run.

    Equal bits of another run are `identical`. Outputs that are as near to another run as two right implementations of
    one operator are to each other are `rounding`: nothing bounds it, as the detail states. Any other difference is a
    finding where a node alone shows it and float64 or a second run takes the reference evaluator's side. Else it is
    unjudged: no referee decides which side is right. A failure is a finding where the format's checker takes the file
    (`valid`) and the evaluator runs it, and unjudged elsewhere. `reason`: why there is no graph. `witnesses`: runs of
    the evaluator, which have no row. `nodes`: finds the nodes that a platform computes otherwise.
    """
    every = {**(witnesses or {}), **runs}
    outputs = {platform: run.outputs for platform, run in every.items() if run is not None and run.outputs is not None}
    runs_whole = valid and any(platform in outputs for platform in witnesses or ())
    rows = [_row_of_file(name, platform, run, outputs, reason, runs_whole) for platform, run in runs.items()]
    return [
        row if nodes is None or not row.unjudged or run is None or run.outputs is None
        else _with_nodes(row, run, outputs, [*(witnesses or {})], nodes)
        for row, run in zip(rows, runs.values(), strict=True)
    ]  # fmt: skip


def _with_nodes(
    row: Row, run: OwnRun, outputs: Mapping[PlatformName, Sequence[Array]], evaluators: Sequence[PlatformName],
    nodes: NodesOn,
) -> Row:  # fmt: skip
    """The row with the nodes that are wrong, where there are some and it is known that the platform is."""
    ours = run.outputs or ()
    others = {each: theirs for each, theirs in outputs.items() if each != row.platform}
    agree = any(near(outputs[one], others[each]) for one in evaluators for each in others if each != one)
    apart = max((distance(ours, theirs) for theirs in others.values()), default=None)
    faults = faults_of_nodes(nodes(row.platform, apart), "platform" if agree else None) if apart else []
    known = [fault for fault in faults if fault.blame == "platform"]
    about = own_path_of(run, "differs", row.detail)
    sides = ours, next(iter(others.values()), ours)
    for fault in known:
        row = with_fault(replace(row, unjudged=False), fault, about, sides)
    return row


def failures_of_file(runs: Runs) -> str:
    """Says why no platform ran a file: one clause for each that reads it."""
    return "; ".join(f"{platform}: {run.reason}" for platform, run in runs.items() if run is not None and run.reason)


def _row_of_file(
    name: str, platform: PlatformName, run: OwnRun | None, outputs: Mapping[PlatformName, Sequence[Array]], reason: str,
    runs_whole: bool,
) -> Row:  # fmt: skip
    """`runs_whole`: the file is valid, and the evaluator runs it."""
    if run is None or not run.fed or not outputs:
        why = "this platform does not read the file" if run is None else run.reason
        return not_run(name, platform, Reason("own_path", message=f"{reason}, and {why}"))
    row, others = Row(name, platform, "ok", None), {each: out for each, out in outputs.items() if each != platform}
    if run.outputs is None and run.refused:
        return replace(row, status="unsupported", message=f"{run.words} is refused: {run.reason}")
    if run.outputs is None:
        ran_on = ", ".join(others)
        if runs_whole:
            text = f"{run.words} fails here: {run.reason}. It runs on {ran_on}"
            fault = Fault(SubmoduleCulprit(""), "failed", "platform", detail=text)
            return with_fault(replace(row, message=run.reason), fault, own_path_of(run, "failed", text))
        text = f"{run.words} fails here: {run.reason}. It runs on {ran_on}; {reason}, so nothing says which is right"
        return replace(
            row, status="runtime_error", unjudged=True, message=run.reason, detail=text,
            own_path=own_path_of(run, "unjudged", text), reasons=_OF_FILE,
        )  # fmt: skip
    if not others:
        text = f"{reason}. No second platform ran it"
        return replace(row, unjudged=True, detail=text, own_path=own_path_of(run, "unjudged", text), reasons=_OF_FILE)
    ours = run.outputs
    nearest = min(others, key=lambda each: (not same_bits(ours, others[each]), distance(ours, others[each])))
    row = measured(row, ours, others[nearest])
    if same_bits(ours, others[nearest]):
        text = f"{run.words} gives the bits that it gives on {nearest}; {reason}"
        return replace(row, verdict="identical", detail=text, own_path=own_path_of(run, "same", text))
    off = off_words(ours, others[nearest], distance(ours, others[nearest]), str(nearest))
    if near(ours, others[nearest]):
        text = f"{run.words} {off}, as right implementations may be; no error bound: {reason}"
        return replace(row, verdict="rounding", detail=text, own_path=own_path_of(run, "rounding", text))
    text = f"{run.words} {off}; {reason}, so nothing says which is right"
    return replace(row, unjudged=True, detail=text, own_path=own_path_of(run, "unjudged", text), reasons=_OF_FILE)


def same_bits(ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    """Returns whether outputs are equal bit for bit."""
    return forms(ours) == forms(theirs) and all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True))


def near(ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    """Returns whether outputs are as near as two right implementations of one operator are to each other."""
    from mindgap.sources.translated_model import apart  # imports PyTorch

    return forms(ours) == forms(theirs) and not any(apart(a, b) for a, b in zip(ours, theirs, strict=True))
