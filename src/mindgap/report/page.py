"""Writes the self-contained HTML page of a report. The page loads nothing from a network."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, Template
from markupsafe import Markup, escape

from mindgap.findings.causes import CauseKey, cause_key_of_row
from mindgap.graph.compare.culprit import Culprit, DtypePolicy, OutputsCulprit, SubmoduleCulprit
from mindgap.graph.decisions import other_decision
from mindgap.platforms.name import PlatformName
from mindgap.report.chart import bundle, difference_chart
from mindgap.report.finding_blocks import diff_command, is_of_export, reduce_command, source_excerpt, trace_command
from mindgap.report.graph_svg import ROLES, graph_svg
from mindgap.report.templates import HERE, source_text, styles, template_environment
from mindgap.report.words import (
    MEANINGS,
    METRICS,
    MORE_METRICS,
    TERMS,
    contradiction,
    detail_line,
    explain,
    fault_name,
    metric,
    number,
    own_path_words,
    quantisation_costs,
    short,
    weaker_evidence,
)
from mindgap.workflows.diff import Report, Row

#: The columns of the table of comparisons, and how wide each is.
_COLUMNS: Final = {
    "model": "17%", "platform": "16%", "verdict": "8%", "culprit": "16%", "blame": "7%", "rel. error": "7%",
    "max abs": "8%", "what happened": "21%",
}  # fmt: skip
#: Rows of a long table that are drawn at first, as STEP in table.js: a browser lays out no hidden row.
DRAWN: Final = 200
_SEVERITY: Final = {word: rank for rank, word in enumerate(MEANINGS)}


@dataclass(frozen=True, slots=True)
class Root:
    """Findings that share a cause, as far as rows that were not reduced tell. `rows`: worst first, one per fault."""

    key: CauseKey
    rows: tuple[Row, ...]

    @property
    def word(self) -> str:
        """The worst verdict."""
        return self.rows[0].word

    @property
    def blame(self) -> str:
        """The side that is wrong, or empty."""
        return self.rows[0].blame or ""

    @property
    def name(self) -> str:
        """The operators, or the message or policy where that separates the causes."""
        return " + ".join(self.key.operators) or self.key.signature[:120]

    @property
    def platforms(self) -> list[str]:
        """The platforms of the findings, each once."""
        return _unique(row.platform for row in self.rows)

    @property
    def models(self) -> list[str]:
        """The models of the findings, each once."""
        return _unique(row.model for row in self.rows)


def html_page(report: Report) -> str:
    """Writes the page, one HTML document without external files."""
    platforms = _unique(row.platform for row in report.rows)
    causes = roots(report)
    chart = difference_chart(report)
    return template("page.html.j2").render(
        report=report,
        platforms=platforms,
        cells={(row.model, row.platform): row for row in report.rows},
        anchors={(row.model, row.platform): f"r-{n}" for n, row in enumerate(report.rows, 1)},
        ordered=[*report.findings, *(row for row in report.rows if not row.finding)],
        roots=causes,
        cause_numbers=_cause_numbers(causes),
        classes={model.name: lettered(report, model.name) for model in report.models},
        class_columns=list(dict.fromkeys([report.reference, *platforms])),
        columns=_COLUMNS,
        figures={**METRICS, **MORE_METRICS},
        severity=_SEVERITY,
        chart=chart,
        bundle=Markup(bundle()) if chart else "",
        graph_script=Markup(source_text("graph.js")),
    )


def template(name: str, folder: Path = HERE) -> Template:
    """Returns a template of a folder, which can use the functions, styles and script of all pages."""
    return _environment(folder).get_template(name)


@cache
def _environment(folder: Path) -> Environment:
    functions: dict[str, Any] = {
        "drawn": DRAWN,
        "css": styles("page.css"),
        "script": Markup(source_text("table.js")),
        "meanings": MEANINGS,
        "terms": TERMS,
        "heading": heading,
        "quantisation_costs": quantisation_costs,
        "hover": explain,
        "filter_words": filter_words,
        "letter_name": letter_name,
        "metric": metric,
        "profiles": profiles,
        "reduce_command": reduce_command,
        "roles": roles,
        "node_roles": ROLES,
        "graph_svg": graph_svg,
        "exact": exact,
        "number": number,
        "source_excerpt": source_excerpt,
        "trace_command": trace_command,
        "diff_command": diff_command,
        "is_of_export": is_of_export,
        "detail_line": detail_line,
        "fault_name": fault_name,
        "short": short,
        "sort_value": sort_value,
        "under": under,
        "contradiction": contradiction,
        "other_decision": other_decision,
        "weaker_evidence": weaker_evidence,
        "own_path_words": own_path_words,
    }
    return template_environment(functions, folder)


def roots(report: Report) -> list[Root]:
    """Groups the faults of all findings by cause: worst verdict first, then by count."""
    grouped: dict[CauseKey, list[Row]] = {}
    for row in report.findings:
        for each in row.by_fault:
            grouped.setdefault(cause_key_of_row(each), []).append(each)
    roots_found = [Root(key, tuple(sorted(rows, key=lambda row: _SEVERITY[row.word]))) for key, rows in grouped.items()]
    return sorted(roots_found, key=lambda root: (_SEVERITY[root.word], -len(root.rows)))


def _cause_numbers(found: Iterable[Root]) -> dict[tuple[str, str], str]:
    """Maps a model and a platform to the numbers of the causes that its row shows, one a line."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for position, root in enumerate(found, 1):
        for row in root.rows:
            numbers.setdefault((row.model, row.platform), []).append(str(position))
    return {place: "\n".join(dict.fromkeys(each)) for place, each in numbers.items()}


def lettered(report: Report, model: str) -> Mapping[str, int]:
    """Maps platforms to equivalence classes, 0 the reference's; platforms without outputs are left out."""
    return {platform: rank for rank, members in enumerate(report.classes(model)) for platform in members}


def letter_name(rank: int) -> str:
    """Returns the letters of a number: 0 -> A, 25 -> Z, 26 -> AA."""
    name = ""
    rank += 1
    while rank:
        rank, digit = divmod(rank - 1, 26)
        name = chr(ord("A") + digit) + name
    return name


def heading(platform: PlatformName, execution: str = "") -> Markup:
    """Formats a platform for a narrow column: its name, and each option on a line below; last, where it is no hardware,
    how it is executed (`simulated`, `emulated`)."""
    slash = "" if platform.is_import_path else "/"
    lines = [f"<span>{escape(platform.device)}{slash}<wbr>{escape(platform.mode)}</span>"]
    lines += [f"<small>{escape(f'{key}={value}')}</small><br>" for key, value in platform.options.items()]
    lines += [f"<small>{escape(execution)}</small><br>"] if execution else []
    return Markup("".join(lines))


def under(row: Row) -> str:
    """Returns the second line of a matrix cell."""
    if row.finding:
        name = plain_culprit(row.culprit) if row.culprit else row.status.replace("_", " ")
        return f"{name}, {len(row.faults)} faults" if len(row.faults) > 1 else name
    if row.word in ("rounding", "ill_conditioned", "undefined", "internal"):
        error = row.metrics.get("relative_error")
        return f"{error:.0e}" if isinstance(error, float) else ""
    return ""


def plain_culprit(culprit: Culprit) -> str:
    """Names a culprit in a few words: of a set of operators the first, and how many more; of what a platform does to a
    dtype, `float64 in float32`; `graph outputs` for a value that is returned twice."""
    match culprit:
        case DtypePolicy():
            return culprit.words.replace(" computed in ", " in ")
        case OutputsCulprit():
            return "graph outputs"
        case SubmoduleCulprit():
            return culprit.path or culprit.op
        case _:
            first, *rest = culprit.ops
            return f"{plain_op(first)} +{len(rest)}" if rest else plain_op(first)


def plain_op(op: str) -> str:
    """`aten.native_layer_norm.default` -> `native_layer_norm`."""
    parts = op.split(".")
    return (parts[1] if len(parts) == 3 else op)[:22]


def filter_words(row: Row) -> str:
    """Returns the values of the verdict filter that show this row, one a line."""
    return f"{row.word}\nfinding" if row.finding else row.word


def sort_value(row: Row, name: str) -> str:
    """Formats a metric as JavaScript reads numbers; empty if it is missing or is no number."""
    value = row.metrics.get(name)
    number = float(value) if isinstance(value, (int, float, str)) else math.nan
    return "" if math.isnan(number) else "Infinity" if number == math.inf else repr(number)


def exact(value: float | None) -> str:
    """Formats a statistic with seven digits, which show the difference of two sides where float32 has it."""
    return "–" if value is None else f"{value:.7g}"


def profiles(row: Row) -> str:
    """Formats the verdicts of the two fixed tolerances: `fail / pass`."""
    words = {True: "pass", False: "fail", None: "–"}
    return " / ".join(words[row.profiles.get(name)] for name in ("paper", "assert_close"))


def roles(row: Row) -> str:
    """Lists nodes by role: `introduces: linear (12), …; amplifies: …`, at most eight each."""
    parts: list[str] = []
    counts = Counter(role for _, _, role in row.nodes)
    for role, count in counts.items():
        named = [f"{plain_op(op)} ({node})" for node, op, r in row.nodes if r == role][:8]
        parts.append(f"{role} {count}: {', '.join(named)}{' …' if count > len(named) else ''}")
    return "; ".join(parts)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
