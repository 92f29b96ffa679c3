"""Prints a report as text: a line per platform or a matrix, a block per finding, reasons, notes, totals.

Lines are wrapped to the width of a terminal. Elsewhere, as in a pipe or a file, each stays whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mindgap.graph.compare.culprit import SubmoduleCulprit
from mindgap.graph.compare.reason import has
from mindgap.graph.compare.row_metrics import changed_wholly
from mindgap.platforms.name import PlatformName
from mindgap.report.finding_blocks import Block, blocks, size_text
from mindgap.report.words import (
    METRICS,
    clean,
    contradiction_notes,
    given_back,
    meaning,
    non_finite_notes,
    other_decision_notes,
    own_path_notes,
    quantisation_costs,
    reason,
    weak_operators,
    weaker_evidence,
    word_text,
)
from mindgap.workflows.diff import Report, Row

_STYLES: Final = {
    "identical": "dim",
    "rounding": "green",
    "ill_conditioned": "cyan",
    "undefined": "cyan",
    "internal": "cyan",
    "reduced_precision": "bold yellow",
    "unjudged": "yellow",
    "not_run": "yellow",
    "unsupported": "dim italic",
    "no_reference": "dim italic",
}
_FINDING: Final = "bold red"
#: Columns of text of other tables when standard output is no terminal, which would otherwise count as 80.
_PLAIN_WIDTH: Final = 200
#: Columns of a terminal that does not tell.
_NARROW: Final = 80
#: Columns for the text about a row; where fewer are left of its line, the next line has it.
_REMARK: Final = 30
#: Characters of a long text in a cell of a table.
_CELL: Final = 110
#: Columns before the text of a block's field.
_FIELD: Final = 11
#: Columns of a model's name in a matrix, if the terminal is narrow.
_NAME: Final = 24


def console(out: TextIO) -> Console:
    """Makes a Rich console on a stream: as wide as the terminal, or wide enough for a log."""
    return Console(file=out, width=None if out.isatty() else _PLAIN_WIDTH)


def cut(text: str, most: int = _CELL) -> str:
    """The text on one line, as far as a cell of a table has it."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def plain_table(*columns: str, title: str | None = None, right: Collection[str] = ()) -> Table:
    """Makes a table without borders. `right`: the columns that are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


class Lines:
    """Prints lines that are wrapped to a terminal with an indent, and whole elsewhere. Without trailing spaces."""

    def __init__(self, out: TextIO) -> None:
        console_made = Console(file=out)
        self.width = (console_made.width or _NARROW) if out.isatty() else None
        self._console = Console(file=out, width=self.width or _PLAIN_WIDTH)

    def put(self, text: Text, indent: int = 0, first: Text | None = None) -> None:
        """Prints a text. `indent`: of the lines below the first one; `first` is filled up to it."""
        start = Text() if first is None else first.copy()
        if first is not None and text:
            start.pad_right(indent - start.cell_len)
        parts: Iterable[Text] = [text]
        if self.width is not None and start.cell_len + text.cell_len > self.width:
            parts = text.wrap(self._console, max(self.width - indent, 1))
        for number, part in enumerate(parts):
            line = Text.assemble(Text(" " * indent) if number else start, part)
            line.rstrip()
            self._console.print(line, soft_wrap=True, highlight=False)

    def put_command(self, text: str, indent: int, first: Text) -> None:
        """Prints a command, which is to be copied: it is not wrapped, and stands below `first` where it is too long."""
        if self.width is None or indent + cell_len(text) <= self.width:
            self.put(Text(text), indent, first)
            return
        self.put(first)
        self._console.print(Text(f"    {text}"), soft_wrap=True, highlight=False)


def print_report(report: Report, out: TextIO, *, metrics: bool = False, verbose: bool = False) -> None:
    """Prints a line per platform for one model, a matrix for several, then findings; nothing without a model.

    `metrics`: the metrics of each row too. `verbose`: the judge's detail of calm rows, and why evidence is weaker.
    What was refused, and why nothing was compared, is for standard error.
    """
    if not report.models:
        return
    lines = Lines(out)
    if len(report.models) == 1:
        model = report.models[0]
        sets = f" ({model.argument_sets} sets of arguments)" if model.argument_sets > 1 else ""
        lines.put(Text(f"{model.name}{sets}", style="bold"))
        print_rows(lines, [_line_of(report.shown(row.platform), row, metrics, verbose) for row in report.rows])
    else:
        _print_matrix(lines, report)
        shown = report.rows if metrics else [row for row in report.rows if row.verdict is None or _is_changed(row)]
        if shown:
            lines.put(Text())
            print_rows(
                lines,
                [_line_of(f"{row.model} on {report.shown(row.platform)}", row, metrics, verbose) for row in shown],
            )
    for line in quantisation_costs(report):
        lines.put(Text(line), 2, Text())
    print_blocks(lines, blocks(report))
    _print_notes(lines, report, verbose)
    lines.put(Text())
    lines.put(Text(totals_line(report), style="bold"))


def print_blocks(lines: Lines, found: Iterable[Block]) -> None:
    """Prints findings, an empty line before each."""
    for block in found:
        lines.put(Text())
        title = Text(block.title)
        title.stylize(_STYLES.get(block.word, _FINDING), 0, block.title.index(":"))
        title.stylize("bold", block.title.index(":"))
        lines.put(title, 2)
        for label, text in block.lines:
            deeper = len(text) - len(text.lstrip())
            head = Text.assemble("  ", (label, "cyan"))
            if label == "script":
                lines.put_command(text, _FIELD, head)
            else:
                lines.put(Text(text.strip()), _FIELD + deeper, head)


@dataclass(frozen=True, slots=True)
class RowLine:
    """What the line of a row shows: its name, one word, a remark; below, advice and figures where there are any."""

    name: str
    word: Text
    remark: str = ""
    metrics: str = ""
    advice: str = ""


def print_rows(lines: Lines, rows: Sequence[RowLine]) -> None:
    """Prints a line for each row, aligned; where the terminal is too narrow, the remark stands below its name."""
    if not rows:
        return
    names = max(cell_len(row.name) for row in rows) + 4
    wide = names + max(row.word.cell_len for row in rows) + 2
    fits = lines.width is None or wide + _REMARK <= lines.width
    indent = wide if fits else 6
    for row in rows:
        head = Text(f"  {row.name}")
        if fits:
            head.pad_right(names - head.cell_len)
            lines.put(Text(row.remark), indent, head + row.word)
        else:
            lines.put(Text.assemble(head, "  ", row.word), 4)
            if row.remark:
                lines.put(Text(row.remark), indent, Text())
        for text, style in ((row.advice, ""), (row.metrics, "dim")):
            if text:
                lines.put(Text(text, style=style), indent, Text())


def _line_of(name: str, row: Row, metrics: bool, verbose: bool) -> RowLine:
    shown = size_text(row, METRICS) if metrics or (row.unjudged and not has(row.reasons, "no_graph")) else ""
    return RowLine(name, _word(row), remark(row, verbose), shown, "" if row.finding else row.advice)


def remark(row: Row, verbose: bool = False) -> str:
    """The text of a row's line after its word: the culprit of a finding, the reason of what is not compared."""
    if row.finding:
        return _culprit(row)
    if row.verdict is None:
        return reason(row)
    if row.verdict == "ill_conditioned" and not verbose and not _is_changed(row):
        return meaning(row.verdict)
    # A row of the reference itself is identical, and has a reason.
    shown = verbose or row.verdict != "rounding" or has(row.reasons, "by_export") or _is_changed(row)
    return clean(row.detail) if shown else ""


def _is_changed(row: Row) -> bool:
    """Whether rounding explains results that are others altogether."""
    return row.verdict in ("rounding", "ill_conditioned") and changed_wholly(row.metrics)


def _culprit(row: Row) -> str:
    culprit = row.culprit
    if culprit is None:
        return reason(row) if row.message else ""
    place = culprit.line if isinstance(culprit, SubmoduleCulprit) else culprit.label
    text = ", ".join(filter(None, (culprit.op, place)))
    more = len(row.independent_faults) - 1
    return f"{text}; {more} more fault{'s' * (more > 1)}" if more else text


def _print_notes(lines: Lines, report: Report, verbose: bool) -> None:
    notes = [f"note: {line}" for line in non_finite_notes(report)]
    notes += [f"note: {line}" for line in contradiction_notes(report.rows)]
    notes += [f"note: {line}" for line in other_decision_notes(report.rows)]
    notes += [f"note: {line}" for line in own_path_notes(report.rows)]
    notes += [f"delegation: {line}" for line in given_back(report.rows)]
    if verbose and (weak := weaker_evidence(report.rows)):
        notes.append(weak)
    elif weak := weak_operators(report.rows):
        notes.append(f"note: judged on weaker evidence: {', '.join(weak)} (--verbose says why)")
    if notes:
        lines.put(Text())
    for note in notes:
        lines.put(Text(clean(note), style="yellow"), 2)


def totals_line(report: Report) -> str:
    """Formats totals: `14 models × 8 platforms against cpu/eager: 3 discrepant, …; 2 findings (1 new)`."""
    totals = report.totals
    words = ", ".join(f"{count} {word_text(word)}" for word, count in totals.words.items()) or "nothing"
    faults = f" with {totals.faults} faults" if totals.faults > totals.findings else ""
    known = f" ({totals.new_faults if faults else totals.new} new)" if totals.new_faults < totals.faults else ""
    refused = f"; {_counted(totals.refused, 'source')} refused" if totals.refused else ""
    return (
        f"{_counted(totals.models, 'model')} × {_counted(totals.platforms, 'platform')} against {report.reference}: "
        f"{words}; {_counted(totals.findings, 'finding')}{faults}{known}{refused}"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _platforms(report: Report) -> list[PlatformName]:
    return list(dict.fromkeys(row.platform for row in report.rows))


def _word(row: Row | None) -> Text:
    if row is None:
        return Text("")
    return Text(word_text(row.word) + (" (known)" if row.known else ""), style=_STYLES.get(row.word, _FINDING))


def _print_matrix(lines: Lines, report: Report) -> None:
    """Prints a line per model and a column per platform; on a narrow terminal, groups of columns below each other."""
    cells = {(row.model, row.platform): row for row in report.rows}
    platforms = _platforms(report)
    for number, platform in enumerate(platforms, 1):
        lines.put(Text(f"[{number}] {report.shown(platform)}"), 4)
    columns = [[_word(cells.get((model.name, platform))) for model in report.models] for platform in platforms]
    headings = [Text(f"[{number}]", style="bold") for number in range(1, len(platforms) + 1)]
    widths = [max(each.cell_len for each in (head, *column)) for head, column in zip(headings, columns, strict=True)]
    names = max(len(model.name) for model in report.models)
    if lines.width is not None:
        names = min(names, max(_NAME, lines.width // 3, lines.width - sum(widths) - 2 * len(widths)))
    for group in column_groups(widths, None if lines.width is None else lines.width - names):
        lines.put(Text())
        heads = [Text("model", style="bold"), *(headings[n] for n in group)]
        rows = ([Text(m.name), *(columns[n][i] for n in group)] for i, m in enumerate(report.models))
        for row in (heads, *rows):
            _print_cells(lines, row, [names, *(widths[n] for n in group)])


def column_groups(widths: Sequence[int], room: int | None) -> list[list[int]]:
    """Positions of columns that fit side by side, one at least, two spaces before each."""
    groups: list[list[int]] = [[]]
    used = 0
    for number, width in enumerate(widths):
        used += width + 2
        if room is not None and used > room and groups[-1]:
            groups.append([])
            used = width + 2
        groups[-1].append(number)
    return groups


def _print_cells(lines: Lines, cells: Sequence[Text], widths: Sequence[int]) -> None:
    """Prints one line of cells. A first cell that is too long has a line of its own."""
    line = Text()
    if cells[0].cell_len > widths[0]:
        lines.put(cells[0])
        cells = [Text(), *cells[1:]]
    for cell, width in zip(cells, widths, strict=True):
        padded = cell.copy()
        padded.pad_right(width + 2 - cell.cell_len)
        line += padded
    line.rstrip()
    lines.put(line)
