"""Writes findings as blocks of text, for the terminal and for pytest, and the reasons of rows without a verdict.

A block has a title and labelled fields: culprit, line of the user's code, blame, an example, sizes, what to do, the
command that writes a reproducer. Rows that tell the same share a block.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from mindgap.graph.compare.culprit import DtypePolicy, SubmoduleCulprit
from mindgap.report.words import METRICS, MOST_TEXT, classes, clean, fault_name, figure, number, reason, word_text
from mindgap.workflows.diff import Report, Row

#: The labels of a block, in their order.
LABELS: Final = (
    "culprit", "module", "line", "blame", "example", "evidence", "message", "size", "advice", "script",
)  # fmt: skip
#: The metrics of the field `size`.
_SIZES: Final = ("max_abs", "max_rel", "relative_error")
#: Lines of the source before and after the culprit's that a page shows.
_BESIDE: Final = 4
#: Platforms or models that a title names.
_MOST_NAMES: Final = 6
#: The line of the user's program in an operator's label: `layer1.0 (model.py:42)`.
LINE: Final = re.compile(r"(?:^|\()(?P<file>[^\s():]+):(?P<line>\d+)\)?$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fault of a finding in text. `word`: its verdict; `title`: verdict, model and platforms.

    `fields`: (label, text) in the order of `LABELS`, texts not empty; a newline starts another line of the same field.
    """

    word: str
    title: str
    fields: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The block as lines of any length."""
        return "\n".join([self.title, *(f"  {label:<8} {line}" for label, line in self.lines)])

    @property
    def lines(self) -> Iterator[tuple[str, str]]:
        """(label, line) for each line of the fields; the label is empty where a field goes on."""
        for label, text in self.fields:
            for position, line in enumerate(text.splitlines()):
                yield "" if position else label, line


def blocks(report: Report, sides: Mapping[str, str] | None = None) -> list[Block]:
    """A block for each fault of each finding, worst first. Faults that differ in nothing but the platform share one; of
    a dtype policy, which is no model's, also those that differ in the model. What rows of a block differ in has a line
    for each of them.

    `sides`: other words for `platform`, `reference` and `undecided`.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for finding in report.findings:
        for row in finding.by_fault:
            groups.setdefault(_likeness(row), []).append(row)
    return [_block(rows, report, sides or {}) for rows in groups.values()]


def _likeness(row: Row) -> tuple[str, ...]:
    """What rows of one block have in common."""
    culprit = row.culprit
    name = fault_name(row.independent_faults[0])
    common = (row.word, str(row.blame), str(row.known), row.advice)
    if isinstance(culprit, DtypePolicy):
        return (*common, culprit.op, row.platform)
    example = row.example.sentence if row.example else ""
    return (*common, row.model, name, culprit.label if culprit else "", example, _message(row))


def _block(rows: Sequence[Row], report: Report, sides: Mapping[str, str]) -> Block:
    first = rows[0]
    models, platforms = (
        [*dict.fromkeys(names)] for names in ((r.model for r in rows), (report.shown(r.platform) for r in rows))
    )
    known = " (known)" if first.known else ""
    alone = len(models) == 1
    # The name of a submodule without a line is the culprit's.
    named_already = isinstance(first.culprit, SubmoduleCulprit) and not first.culprit.line
    label = _label(first) if alone and not named_already else ""
    named_rows = {str(row.platform) if alone else row.model: row for row in rows}
    more = f" and {len(models) - _MOST_NAMES} more" if len(models) > _MOST_NAMES else ""
    named = ", ".join(models[:_MOST_NAMES]) + more
    values = {
        "culprit": _culprit(first, alone),
        "line" if LINE.search(label) else "module": place(first, report) if label else "",
        "blame": _blame(first, report, sides),
        "example": first.example.sentence if first.example else "",
        "evidence": _text_by_name({name: _evidence(row) for name, row in named_rows.items()}),
        "message": _message(first),
        "size": _text_by_name({name: size_text(row) if row.metrics else "" for name, row in named_rows.items()}),
        "advice": first.advice.replace("; ", "\n"),
        # The command reduces the captured graph, which is right here.
        "script": "" if is_of_export(first) else reduce_command(report, first),
    }
    fields = tuple((name, text) for name in LABELS if (text := clean(values.get(name, ""))))
    return Block(first.word, f"{word_text(first.word)}{known}: {named} on {', '.join(platforms)}", fields)


def is_of_export(row: Row) -> bool:
    """Whether the program's own export is at fault, and not what a platform makes of the captured graph."""
    return row.verdict == "export" or isinstance(row.culprit, SubmoduleCulprit)


def _culprit(row: Row, alone: bool) -> str:
    """The culprit; of several models without the nodes, which are each model's own."""
    if row.culprit is None:
        return ""
    return fault_name(row.independent_faults[0]) if alone else row.culprit.op


def _message(row: Row) -> str:
    return reason(row) if row.message and row.verdict in ("failed", "reference_failed") else ""


def _blame(row: Row, report: Report, sides: Mapping[str, str]) -> str:
    words = {
        "platform": "platform", "reference": f"reference ({report.reference})",
        "undecided": "undecided: neither side is shown to be right",
    }  # fmt: skip
    return {**words, **sides}.get(row.blame or "", "")


def _evidence(row: Row) -> str:
    """The judge's detail without what other fields say: all of it for a policy, else the example and the message. Of a
    policy that a sample of the nodes shows, how many these were."""
    if isinstance(row.culprit, DtypePolicy):
        return "; ".join(weak.reason for weak in row.weaknesses if weak.missing == "dtype policy")
    text = clean(row.detail)
    if (message := clean(row.message)) and text.endswith(message):
        text = text[: -len(message)].rstrip(": ")
    if row.example is not None:
        text = text.replace(row.example.sentence, "").strip().removesuffix(":").strip()
        # Behind the example, in brackets. Before it may stand the set of arguments.
        text = re.sub(r"^(|.*?: ) *\((.*)\)$", r"\1\2", text)
    op = row.culprit.op if row.culprit else ""
    for known in (f", on {row.platform}: {op}", f" on {row.platform}: {op}"):
        text = text.removesuffix(known)
    return _cut(text.splitlines()[0], 2 * MOST_TEXT if is_of_export(row) else MOST_TEXT) if text else ""


def _cut(text: str, most: int) -> str:
    """The text, or its first words where it has more characters."""
    return text if len(text) <= most else f"{text[:most].rpartition(' ')[0]} …"


def _text_by_name(found: Mapping[str, str]) -> str:
    """A text of the rows of one block, by platform or model; one line for each where they differ in it, then the
    sentences that all end with."""
    own = {name: text for name, text in found.items() if text}
    texts = [*dict.fromkeys(own.values())]
    if not texts or (len(texts) == 1 and len(own) == len(found)):
        return "".join(texts)
    split = [text.split(". ") for text in texts]
    shared = 0
    while (
        len(texts) > 1
        and all(len(parts) > shared + 1 for parts in split)
        and len({parts[-1 - shared] for parts in split}) == 1
    ):
        shared += 1
    end = ". ".join(split[0][len(split[0]) - shared :])
    lines = [f"{text.removesuffix(f'. {end}') if shared else text} ({name})" for name, text in own.items()]
    more = [f"and {len(lines) - _MOST_NAMES} more"] if len(lines) > _MOST_NAMES else []
    return "\n".join([*lines[:_MOST_NAMES], *more, *([end] if shared else [])])


def size_text(row: Row, names: Iterable[str] = _SIZES) -> str:
    """How far outputs are apart: `max abs 0.25, max rel 0.1; 3 of 40 elements differ, in output 1 of 2`."""
    metrics = row.metrics
    other_class = classes(metrics)
    figures = [f"{METRICS[name]} {text}" for name in names if (text := _figure(row, name, other_class))]
    parts = [other_class, ", ".join(figures)]
    if (differing := metrics.get("n_differing")) and "n" in metrics:
        worst = metrics.get("worst_output") if (metrics.get("outputs") or 1) > 1 else None
        parts.append(f"{differing} of {metrics['n']} elements{'' if worst is None else f' of output {worst}'} differ")
    if "reference" in metrics and "other" in metrics:
        parts.append(f"{metrics['other']} where the reference has {metrics['reference']}")
    return "; ".join(filter(None, parts))


def _figure(row: Row, name: str, other_class: str) -> str:
    """One metric; empty where it was not measured, and for a distance of 0 with elements of another class."""
    value = row.metrics.get(name)
    if value is None or (other_class and not value):
        return ""
    return number(value) if name == "max_abs" else figure(row.metrics, name)


def _label(row: Row) -> str:
    """The module and line of the culprit; of a dtype policy, those of the first of its nodes."""
    if not isinstance(row.culprit, DtypePolicy):
        return row.culprit.label if row.culprit is not None else ""
    nodes = row.independent_faults[0].nodes
    return next((drawn.label for drawn in row.around if nodes and drawn.node == nodes[0]), "")


def place(row: Row, report: Report) -> str:
    """The module and the line of the culprit, and below it the line's text where the file of the source has it."""
    label = _label(row)
    text = _line_text(label, source_file(report, row.model), report.created)
    return f"{label}\n    {text}" if text else label


def source_file(report: Report, model: str) -> str:
    """The file of a model of the source `FILE.py:FUNCTION`, or ""."""
    source = next((each.source for each in report.models if each.name == model), "")
    words = shlex.split(source) if source else []
    path = words[0].partition("?")[0].rpartition(":")[0] if words else ""
    return path if path.endswith(".py") else ""


def _line_text(label: str, file: str, created: str) -> str:
    """The text of the line of a label. Empty where it comes from another file, or the file has changed since."""
    number, lines = _source_lines(label, file, created)
    return lines[number - 1].strip() if lines else ""


def source_excerpt(row: Row, report: Report) -> list[tuple[int, str, bool]]:
    """The culprit's line and those around it: (number, text, whether it is the line). Empty where they are unknown."""
    label = row.culprit.label if row.culprit is not None else ""
    number, lines = _source_lines(label, source_file(report, row.model), report.created)
    first = max(number - _BESIDE, 1)
    return [(n, text, n == number) for n, text in enumerate(lines[first - 1 : number + _BESIDE], first)]


def _source_lines(label: str, file: str, created: str) -> tuple[int, list[str]]:
    """The line's number and the lines of its file; (0, []) where that is another file, or has changed since."""
    match = LINE.search(label)
    if match is None or not file or file.rpartition("/")[2] != match["file"]:
        return 0, []
    try:
        if created and Path(file).stat().st_mtime > datetime.fromisoformat(created).timestamp() + 1:
            return 0, []
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return 0, []
    number = int(match["line"])
    return (number, lines) if 0 < number <= len(lines) else (0, [])


def trace_command(report: Report, row: Row) -> str:
    """The command that compares every value of a finding; empty where a model has no source or the export is at fault,
    and where a side has no values."""
    if is_of_export(row) or row.verdict in ("failed", "reference_failed"):
        return ""
    return _command(report, row, "trace")


def diff_command(report: Report, row: Row) -> str:
    """The command that compares the model on this platform alone; empty where a model has no source."""
    return _command(report, row, "diff")


def reduce_command(report: Report, row: Row) -> str:
    """Returns the command that reduces this finding; empty if the model has no source that a command can name."""
    return _command(report, row, "reduce")


def _command(report: Report, row: Row, name: str) -> str:
    source = next((model.source for model in report.models if model.name == row.model), "")
    if not source:
        return ""
    reference = "" if report.reference == "cpu/eager" else f" --reference {shlex.quote(report.reference)}"
    return f"mindgap {name} {source} -p {shlex.quote(row.platform)}{reference}"
