"""Writes the pages of causes: an index, and a page for each cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from mindgap.findings.causes import Cause
from mindgap.findings.causes.cause import SEVERITIES
from mindgap.findings.reduction.evidence import Evidence, evidence_file, read_evidence
from mindgap.findings.reduction.files import Summary
from mindgap.graph import MindgapError
from mindgap.report.graph_svg import graph_svg
from mindgap.report.page import template
from mindgap.report.templates import source_text
from mindgap.report.words import METRICS, MORE_METRICS, figure

INDEX_NAME: Final = "index.html"
#: Cases that a page lists at once; the others are folded.
_MOST_CASES: Final = 20


@dataclass(frozen=True, slots=True)
class CauseFilter:
    """A list of the index by which causes can be chosen."""

    name: str
    label: str
    values: tuple[str, ...]


def cause_pages(causes: Sequence[Cause], directory: Path) -> Iterator[tuple[str, str]]:
    """Makes the pages as (file name, HTML): the index first, then one for each cause.

    `directory`: where the scripts and the evidence of the causes are. Raises `MindgapError` where one cannot be read.
    """
    yield INDEX_NAME, index_page(causes)
    for cause in causes:
        yield page_name(cause), cause_page(cause, directory)


def page_name(cause: Cause) -> str:
    """Returns the file name of a cause's page."""
    return f"cause-{cause.id}.html"


def index_page(causes: Sequence[Cause]) -> str:
    """Makes the index: a line per cause in the given order, with filters, sorting and search."""
    return template("causes.html.j2").render(
        causes=causes,
        severities={each: sum(cause.severity == each for cause in causes) for each in SEVERITIES},
        rows=sum(cause.rows for cause in causes),
        filters=[
            CauseFilter("severity", "severity", tuple(s for s in SEVERITIES if any(c.severity == s for c in causes))),
            *(_filter(causes, *names) for names in (("kind", "class"), ("stage", "stage"), ("state", "state"))),
            CauseFilter("platform", "platform", tuple(sorted({p for cause in causes for p in cause.platforms}))),
        ],
        rank={severity: rank for rank, severity in enumerate(SEVERITIES)},
        page_name=page_name,
    )


def _filter(causes: Sequence[Cause], name: str, label: str) -> CauseFilter:
    return CauseFilter(name, label, tuple(sorted({getattr(cause, name) for cause in causes} - {""})))


def cause_page(cause: Cause, directory: Path) -> str:
    """Makes the page of one cause, from the script and the evidence of its first finding."""
    shown = cause.findings[0]
    evidence = read_evidence(evidence_file(directory, shown.script))
    figures = {label: figure(evidence.metrics, name) for name, label in {**METRICS, **MORE_METRICS}.items()}
    return template("cause.html.j2").render(
        cause=cause,
        shown=shown,
        text=_script(directory, shown),
        evidence=evidence,
        figures={label: text for label, text in figures.items() if text != "–"},
        pictures=_pictures(evidence),
        link=_link(cause),
        cases=cause.cases[:_MOST_CASES],
        more_cases=cause.cases[_MOST_CASES:],
        index=INDEX_NAME,
        graph_script=Markup(source_text("graph.js")),
    )


def _script(directory: Path, shown: Summary) -> str:
    """The script's text; of a model file, the command that runs it."""
    if shown.command:
        return shown.command
    try:
        return (directory / shown.script).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MindgapError(f"{directory / shown.script} cannot be read: {error}; reduce the finding again") from None


def _pictures(evidence: Evidence) -> list[tuple[str, Any]]:
    graphs = (("reduced", evidence.reduced), ("as it was found", evidence.before))
    return [
        (f"The graph {which}: {len(nodes)} node{'' if len(nodes) == 1 else 's'}", graph_svg(nodes, f"graph {which}"))
        for which, nodes in graphs
        if nodes
    ]


def _link(cause: Cause) -> str:
    """Returns the address of the upstream issue; empty if there is none, or if a browser should not open it."""
    link = cause.upstream.link if cause.upstream is not None else ""
    return link if link.startswith(("https://", "http://")) else ""
