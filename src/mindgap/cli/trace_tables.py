"""Prints a trace, and counts of results, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mindgap.cli.tables import console, plain_table
from mindgap.judge.trace.value_trace import ProbeReport, TracedValue, ValueTrace, turning_points
from mindgap.report.words import number
from mindgap.workflows.diff.tracing import RepeatReport

_ROLES: Final = {"introduces": "bold red", "amplifies": "yellow", "masks": "cyan"}
_STATES: Final = {"equal": "dim", "differs": "", "inside": "dim italic"}
#: Characters of a digest that tables show.
_DIGEST: Final = 8
#: Columns of a terminal below which the table has no digests.
_WIDE: Final = 125
#: Results that are listed for one process.
_RESULTS: Final = 10


def print_trace(trace: ValueTrace, out: TextIO, *, everything: bool) -> None:
    """Prints the values (the turning points, or everything), the outputs, and what looking inside does."""
    page = console(out)
    page.print(Text(f"{trace.model}: {trace.platform} against {trace.reference}", style="bold"))
    values = list(trace.values) if everything else turning_points(trace)
    if values:
        page.print(_values(values, wide=page.width >= _WIDE))
    if len(values) < len(trace.values):
        page.print(f"{len(values)} of {len(trace.values)} values are shown; --all shows every one", highlight=False)
    for report in trace.probes:
        _print_probe(report, trace, page)
    page.print(_summary(trace), highlight=False, markup=False)


def _values(values: Sequence[TracedValue], *, wide: bool) -> Table:
    def if_wide(*cells: str) -> Sequence[str]:
        return cells if wide else ()

    figures = ("mean abs distance", *if_wide("rate of change"), "max abs", *if_wide("max ulp"), "differing")
    sides = if_wide("platform", "reference")
    table = plain_table("node", "operator", "state", *sides, "role", *figures, "where", right=figures)
    for value in values:
        place = f"{value.node}.{value.slot}" if value.slot else str(value.node)
        state = Text("equal (view)" if value.state == "equal" and value.view_of is not None else value.state)
        differing = "–" if value.n_differing is None else f"{value.n_differing}/{value.n}"
        table.add_row(
            place,
            value.op + (" (output)" if value.is_output else ""),
            Text(str(state), style=_STATES[value.state]),
            *if_wide(*(digest[:_DIGEST] for digest in value.digests)),
            Text(value.role or "", style=_ROLES.get(value.role or "", "")),
            *(number(value.mad), *if_wide(number(value.rate)), number(value.max_abs), *if_wide(number(value.max_ulp))),
            differing,
            Text("; ".join(part for part in (value.label, value.note) if part)),
        )
    return table


def _print_probe(report: ProbeReport, trace: ValueTrace, page: Console) -> None:
    nodes = {value.number: f"{value.op} (node {value.node})" for value in trace.values}
    alone = ", ".join(nodes[n] for n in report.changed if n in nodes)
    effects = {
        "no": "no",
        "yes": f"yes, at {alone}" if alone else "yes, with several values at once",
        "unknown": "cannot be told",
    }[report.effect]
    page.print(f"looking inside {report.platform} changes its result: {effects}", markup=False, highlight=False)
    for note in report.notes:
        page.print(f"  {note}", markup=False, highlight=False)


def _summary(trace: ValueTrace) -> str:
    states = [value.state for value in trace.values]
    counts = f"{states.count('equal')} of {len(states)} values are equal, {states.count('differs')} differ"
    if hidden := states.count("inside"):
        counts += f", {hidden} are inside a fusion or were not looked at"
    outputs = [output.equal for output in trace.outputs]
    counts += f"; {outputs.count(False)} of {len(outputs)} outputs differ"
    if trace.first is None:
        return counts
    value = trace.values[trace.first]
    where = f", at {value.label}" if value.label else ""
    first = f"first difference: {value.op} (node {value.node}{where})"
    if len(trace.culprit) > 1:
        first += f"; it comes from {' + '.join(trace.ops)} (nodes {', '.join(map(str, trace.culprit))}) together"
    return f"{first}\n{counts}"


def print_repeats(report: RepeatReport, out: TextIO) -> None:
    """Prints how often each result occurred in each process. Results are numbered, the most frequent first."""
    page = console(out)
    names = {result: f"result {place}" for place, result in enumerate(report.results, 1)}
    table = plain_table(
        "platform", "process", "result", "digest of the first output", "runs", "share", right=("runs", "share")
    )
    for run in report.runs:
        total = sum(run.counts.values())
        ranked = sorted(run.counts.items(), key=lambda pair: -pair[1])
        for result, count in ranked[:_RESULTS]:
            digest = result.split(" ", 1)[0]
            table.add_row(run.platform, str(run.process), names[result], digest, str(count), f"{count / total:.2%}")
        if rest := ranked[_RESULTS:]:
            count = sum(count for _, count in rest)
            table.add_row(
                run.platform, str(run.process), f"{len(rest)} more results", "", str(count), f"{count / total:.2%}"
            )
    page.print(table)
    total = sum(report.results.values())
    plural = "" if len(report.results) == 1 else "s"
    page.print(f"{report.model}: {len(report.results)} distinct result{plural} in {total} runs", highlight=False)
