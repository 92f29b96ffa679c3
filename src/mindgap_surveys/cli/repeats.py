"""Implements `mindgap repeats`, which runs single operators again and again and counts distinct results."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mindgap.cli.diff import AsJson, Deadline, Html, Junit, seconds
from mindgap.cli.numbers import budget_left
from mindgap.cli.progress import counting
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.graph import Graph, MindgapError, default_tensor_store
from mindgap.platforms.registry import canonical
from mindgap.results.answer_rows import AnswerRow
from mindgap.results.settings import DEADLINE_S
from mindgap_surveys.cli.answer_outputs import AnswerFiles, StoreOption
from mindgap_surveys.report.study_page import Section, StudyPage, Text
from mindgap_surveys.table import StudyTable, made

if TYPE_CHECKING:
    from mindgap_surveys.decoding.operator_repeats import OperatorRepeats

_LEAD: Final = (
    "Each operator runs again and again in one process, with the same operands. Distinct results are counted by the "
    "bits of all outputs. Probabilities have intervals of 95% (Wilson)."
)
_COLUMNS: Final = (
    "operator", "PyTorch's list", "platform", "runs", "distinct", "most frequent", "option deterministic=on",
)  # fmt: skip
_EFFECTS: Final = {
    "fixes": "one result", "fails": "still several", "refuses": "refused", "other result": "one, other bits",
    "nothing": "the same result", "none": "no such option", "unknown": "not known",
}  # fmt: skip


@dataclass(frozen=True)
class _Share:
    """How often one result came, and the interval of its probability."""

    operator: str
    platform: str
    option: str
    count: int
    probability: float
    low: float
    high: float


def _shares(operators: Sequence[OperatorRepeats]) -> list[_Share]:
    """The probability of each result, the most frequent of an operator first."""
    return [
        _Share(one.operator, str(one.platform), option, count, *each.share(place))
        for one in operators
        for option, each in (("", one.default), ("deterministic=on", one.switched))
        if each is not None
        for place, count in enumerate(sorted(each.counts.values(), reverse=True))
    ]


def repeats(
    operators: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OPERATOR…]", help="Parts of names, such as index_put (default: all)."),
    ] = None,
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", metavar="PLATFORM", help="A platform; may be given several times.")
    ] = ["cpu/eager"],  # noqa: B006 # typer copies it
    repeat: Annotated[int, typer.Option(min=2, metavar="N", help="Runs of each operator.")] = 10_000,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="For everything: slow operators get fewer runs, the last ones none."),
    ] = None,
    as_json: AsJson = False,
    html: Html = None,
    junit: Junit = None,
    store: StoreOption = None,
    deadline: Deadline = DEADLINE_S,
) -> int:
    """Repeat single operators on each platform: distinct results, the probability of each, and what the platform's
    option for deterministic algorithms changes. Operators: those that PyTorch lists as non-deterministic, and those
    that accumulate.

    Exit status: 1 where an operator gives several results, 2 where one did not run.

    Example: mindgap repeats index_put -p cpu/eager -p cpu/inductor
    """
    files = AnswerFiles(html, junit, store, as_json)
    files.check()
    budget_s = None if budget is None else budget_left("--budget", budget)
    # Imported late: other commands need no PyTorch.
    from mindgap.graph_capture.errors import CaptureError
    from mindgap_surveys.decoding.operator_repeats import (
        OperatorRepeats,
        Repeated,
        RepeatLimits,
        chosen,
        repeat_operators,
    )
    from mindgap_zoo.operator_samples.accumulating import CALLS

    tensors = default_tensor_store()
    names = chosen(operators or [], {each.name: each.listed for each in CALLS})
    named = [canonical(platform) for platform in dict.fromkeys(platforms)]
    graphs: dict[str, tuple[str, Graph]] = {}
    left_out: list[OperatorRepeats] = []
    with result_stream() as out:
        for each in (call for call in CALLS if call.name in names):
            try:
                graphs[each.name] = (each.listed, each.graph(tensors))
            except CaptureError as error:
                complain(f"{each.name}: left out: {error}")
                none = Repeated({}, f"it is not captured: {error}")
                left_out += [OperatorRepeats(each.name, each.listed, name, none, None) for name in named]
        if not graphs:
            raise MindgapError("no operator could be captured")
        limits = RepeatLimits(repeat, budget_s, seconds(deadline))
        with counting() as tick:
            done = itertools.count(1)

            def show(one: OperatorRepeats) -> None:
                tick(next(done), len(graphs) * len(set(platforms)), " ".join(_cells(one)))

            repeated = [*left_out, *repeat_operators(graphs, platforms, limits, tensors=tensors, progress=show)]
        rows = [row for one in repeated for row in _rows(one)]
        sections = tuple(Section(table.title, table.title, (table,)) for table in _tables(repeated))
        page = StudyPage("Repeated operators", tuple(map(Text, (_LEAD, *_processor_time(repeated)))), sections)
        document = {"repeat": repeat, "results": repeated, "shares": _shares(repeated)}
        status = files.write("repeats", page, rows, document, out, {"repeat": repeat})
    if not any(each.default.runs for each in repeated):
        complain("NOTHING WAS REPEATED: no platform ran an operator")
        status = status or Exit.WRONG_USE
    return status


def _processor_time(repeats: Sequence[OperatorRepeats]) -> list[str]:
    """A line for each platform: runs and processor seconds, those with the option included."""
    lines: list[str] = []
    for name in dict.fromkeys(one.platform for one in repeats):
        results = [
            each for one in repeats if one.platform == name for each in (one.default, one.switched) if each is not None
        ]
        seconds, runs = sum(each.cpu_s for each in results), sum(each.runs for each in results)
        lines.append(f"{name}: {runs:,} runs with the option and without, {seconds:.0f} s of processor time")
    return lines


def _rows(measured: OperatorRepeats) -> list[AnswerRow]:
    rows: list[AnswerRow] = []
    for label, each in (("default", measured.default), ("deterministic=on", measured.switched)):
        if each is None:
            continue
        numbers: dict[str, float] = {"runs": each.runs, "distinct": each.distinct, "processor seconds": each.cpu_s}
        if each.runs:
            share, low, high = each.share()
            numbers |= {"most frequent": share, "low": low, "high": high}
        verdict = "one result" if each.distinct == 1 else "several results"
        state = "passed" if each.distinct == 1 else "found"
        if each.reason and not each.runs:
            verdict, state = ("refused", "passed") if each.unsupported else ("not run", "unknown")
        elif each.reason and each.distinct == 1:
            verdict, state = "stopped", "unknown"
        rows.append(
            AnswerRow(measured.operator, str(measured.platform), "repeats", label, verdict, state, each.reason, numbers)
        )
    return rows


def _cells(measured: OperatorRepeats) -> tuple[str, ...]:
    runs, distinct, probability = "", "", f"not run: {measured.default.reason[:100]}"
    if measured.default.runs:
        share, low, high = measured.default.share()
        stopped = f", then stopped: {measured.default.reason[:100]}" if measured.default.reason else ""
        runs, distinct = f"{measured.default.runs:,}", str(measured.default.distinct)
        probability = f"{share:.4f} ({low:.4f} to {high:.4f}){stopped}"
    effect = _EFFECTS[measured.effect]
    if measured.effect == "fails" and measured.switched is not None:
        effect += f": {measured.switched.distinct} of {measured.switched.runs:,}"
    return measured.operator, measured.listed, str(measured.platform), runs, distinct, probability, effect


def _tables(operators: Sequence[OperatorRepeats]) -> list[StudyTable]:
    several = {(one.operator, str(one.platform)) for one in operators if one.default.distinct > 1}
    frequent = [one for one in _shares(operators) if (one.operator, one.platform) in several and one.count > 1]
    rows = (
        (one.operator, one.platform, one.option, f"{one.count:,}",
         f"{one.probability:.4f} ({one.low:.4f} to {one.high:.4f})")
        for one in frequent
    )  # fmt: skip
    return [
        made("", "All operators", _COLUMNS, map(_cells, operators),
             "PyTorch's list: switched: deterministic with the switch, on some device; refused: an error with it."),
        made("", "Results of operators that give several", "operator platform option times probability", rows,
             "Results that came more than once, the most frequent first."),
    ]  # fmt: skip
