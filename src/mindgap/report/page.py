"""Writes the self-contained HTML page of a report. The page loads nothing from a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from mindgap.compare.culprit import GRAPH_OUTPUTS
from mindgap.compare.verdict import DTYPE_POLICY
from mindgap.diff import Report, Row
from mindgap.report.chart import bundle, precision_chart
from mindgap.report.words import MEANINGS, detail_line, explain, metric, short, weaker_evidence

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Root:
    """Findings that share verdict, culprit operator and blame."""

    word: str
    op: str
    blame: str
    platforms: Sequence[str]
    models: Sequence[str]
    count: int


def html_page(report: Report) -> str:
    """Writes the page, one HTML document without external files."""
    platforms = list(dict.fromkeys(row.platform for row in report.rows))
    chart = precision_chart(report)
    return _template().render(
        report=report,
        platforms=platforms,
        cells={(row.model, row.platform): row for row in report.rows},
        anchors={(row.model, row.platform): f"f-{n}" for n, row in enumerate(report.findings, 1)},
        roots=roots(report),
        classes={model.name: lettered(report, model.name) for model in report.models},
        class_columns=list(dict.fromkeys([report.reference, *platforms])),
        chart=chart,
        bundle=Markup(bundle()) if chart else "",
        css=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        meanings=MEANINGS,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    functions: dict[str, Any] = {
        "heading": heading,
        "hover": explain,
        "letter_name": letter_name,
        "metric": metric,
        "profiles": profiles,
        "roles": roles,
        "detail_line": detail_line,
        "short": short,
        "under": under,
        "weaker_evidence": weaker_evidence,
    }
    environment.globals.update(functions)
    return environment.get_template("page.html.j2")


def roots(report: Report) -> list[Root]:
    """Groups the findings by cause: worst verdict first, then by count."""
    grouped: dict[tuple[str, str, str], list[Row]] = {}
    for row in report.findings:
        cause = row.culprit.op if row.culprit else row.signature.splitlines()[0][:120] if row.signature else ""
        grouped.setdefault((row.word, cause, row.blame or ""), []).append(row)
    severity = {word: rank for rank, word in enumerate(MEANINGS)}
    found = [
        Root(word, op, blame, _unique(r.platform for r in rows), _unique(r.model for r in rows), len(rows))
        for (word, op, blame), rows in grouped.items()
    ]
    return sorted(found, key=lambda root: (severity[root.word], -root.count))


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


def heading(platform: str) -> Markup:
    """Formats a platform for a narrow column: its name, and each option on a line below."""
    name, _, options = platform.partition("@")
    device, slash, mode = name.partition("/")
    lines = [f"<span>{escape(device)}{slash}<wbr>{escape(mode)}</span>"]
    lines += [f"<small>{escape(option)}</small><br>" for option in options.split(",") if option]
    return Markup("".join(lines))


def under(row: Row) -> str:
    """Returns the second line of a matrix cell."""
    if row.finding:
        return plain_op(row.culprit.op) if row.culprit else row.status.replace("_", " ")
    if row.word in ("rounding", "ill_conditioned", "undefined", "internal"):
        error = row.metrics.get("relative_error")
        return f"{error:.0e}" if isinstance(error, float) else ""
    return ""


def plain_op(op: str) -> str:
    """`aten.native_layer_norm.default` -> `native_layer_norm`; of a fused set the first, and how many more; of what a
    platform does to a dtype, `float64 in float32`; `graph outputs` for a value that is returned twice."""
    if op.startswith(DTYPE_POLICY):
        return op.removeprefix(DTYPE_POLICY).replace(" computed in ", " in ")
    if op.startswith(GRAPH_OUTPUTS):
        return GRAPH_OUTPUTS
    first, *rest = op.split("+")
    parts = first.split(".")
    name = parts[1] if len(parts) == 3 else first
    return f"{name[:22]} +{len(rest)}" if rest else name[:22]


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


def _unique(names: Any) -> list[str]:
    return list(dict.fromkeys(names))
