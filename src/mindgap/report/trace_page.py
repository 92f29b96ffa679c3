"""Writes the self-contained HTML page of a trace. The page loads nothing from a network."""

from __future__ import annotations

from functools import cache

from jinja2 import Template
from markupsafe import Markup

from mindgap.judge.trace.value_trace import ValueTrace, turning_points
from mindgap.report.chart import bundle
from mindgap.report.templates import styles, template_environment
from mindgap.report.trace_chart import ROLES, STATES, distance_chart
from mindgap.report.words import number


def trace_page(trace: ValueTrace) -> str:
    """Writes the page, one HTML document without external files."""
    states = [value.state for value in trace.values]
    drawn = any(value.mad for value in trace.values)
    return _template().render(
        trace=trace,
        first=None if trace.first is None else trace.values[trace.first],
        counts={state: states.count(state) for state in ("equal", "differs", "inside")},
        turning={value.number for value in turning_points(trace)},
        nodes={value.number: value for value in trace.values},
        roles={role: fill for role, (fill, _) in ROLES.items()},
        states=STATES,
        chart=distance_chart(trace) if drawn else None,
        bundle=Markup(bundle()) if drawn else "",
        css=styles("page.css"),
        number=number,
    )


@cache
def _template() -> Template:
    return template_environment().get_template("trace.html.j2")
