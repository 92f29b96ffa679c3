"""Shows a report or a row in a notebook: the page's verdicts, and a block for each finding. Needs no extra."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Template
from markupsafe import Markup

from mindgap.platforms.name import parse
from mindgap.report.finding_blocks import blocks
from mindgap.report.templates import source_text, template_environment
from mindgap.report.words import MEANINGS, detail_line, short
from mindgap.workflows.diff import Report, Row


def notebook_html(shown: Report | Row) -> str:
    """Returns an HTML fragment. Its styles hold inside it only."""
    report = shown if isinstance(shown, Report) else Report(parse("cpu/eager"), (), (), (shown,))
    rows = [*report.findings, *(row for row in report.rows if not row.finding)]
    alone = not isinstance(shown, Report)
    return _template().render(report=report, rows=rows, blocks=blocks(report), alone=alone, css=_tags())


@cache
def _template() -> Template:
    functions = {
        "meanings": MEANINGS,
        "short": short,
        "detail_line": detail_line,
    }
    return template_environment(functions).get_template("notebook.html.j2")


@cache
def _tags() -> Markup:
    """Returns the page's styles of verdicts."""
    lines = [line for line in source_text("page.css").splitlines() if line.startswith((".tag", ".w-"))]
    return Markup("\n".join(re.sub(r"(^|, )(?=\.)", r"\1.mindgap ", line) for line in lines))
