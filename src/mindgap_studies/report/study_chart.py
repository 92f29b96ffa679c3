"""Makes the charts of a study's page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import altair

from mindgap.report.chart import COLOURS
from mindgap.results.failure_rules import CAUSES, TYPES
from mindgap_studies import StudyTable, records
from mindgap_studies.gap.vocabulary import CALM, WRONG

#: Altair's interface is generated, and typed in parts only.
alt: Final[Any] = altair

_WIDTH: Final = 760
_WORDS: Final[Mapping[str, str]] = {
    "identical": "#c9cdd4",
    **COLOURS,
    "structural": "#33363d",
    "failed": "#6d1212",
    "unsupported": "#e9dfe0",
    "unjudged": "#f0e442",
    "not_judged": "#ff2d9b",
}
_CAUSES: Final[Mapping[str, str]] = {
    "unsupported_operator": "#b9a3c9",
    "dtype_refused": "#7c5295",
    "index_out_of_bounds": "#5b9bd5",
    "shape_mismatch": "#17395c",
    "memory": "#d9930d",
    "crash": "#6d1212",
    "time_out": "#c9480b",
    "stalled": "#c9480b",
    "code_generation": "#3f9186",
    "not_started": "#f0e442",
    "other": "#8b909a",
}
_ALARMS: Final[Mapping[str, str]] = {
    "agree_wrong": "#6d1212",
    "only_the_tolerance_alarms": "#5b9bd5",
    "the_tolerance_misses": "#f0a30a",
}


def chart_of(table: StudyTable) -> dict[str, Any] | None:
    """Makes a Vega-Lite chart of a table; None if it would be empty or add nothing."""
    draw = _CHARTS.get(table.name)
    return None if draw is None or not table.rows else draw(records(table))


def _stacked(
    rows: Sequence[Mapping[str, Any]], parts: Sequence[str], colours: Mapping[str, str], title: str, share: bool
) -> dict[str, Any] | None:
    """Makes a stacked bar per platform. `share`: all bars have one length."""
    points = [
        {"platform": row["platform"], "what": spaced(part), "count": row[part], "rank": rank}
        for row in rows
        for rank, part in enumerate(parts)
        if row["platform"] != "all" and row[part]
    ]
    if not points:
        return None
    there = [part for part in parts if any(point["what"] == spaced(part) for point in points)]
    scale = alt.Scale(domain=[spaced(part) for part in there], range=[colours[part] for part in there])
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_bar(size=16)
        .encode(
            y=_platforms(rows),
            x=alt.X(
                "count:Q",
                title=title,
                stack="normalize" if share else "zero",
                axis=alt.Axis(format="%") if share else alt.Axis(format="d", tickMinStep=1),
            ),
            color=alt.Color("what:N", title=None, scale=scale),
            order=alt.Order("rank:Q"),
            tooltip=["platform:N", "what:N", "count:Q"],
        )
    )
    return _finished(chart)


def _failures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    return _stacked(rows, CAUSES, _CAUSES, "outcomes without outputs", share=False)


def _compile_failures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    return _stacked(rows, TYPES, _CAUSES, "models that fail to compile or run", share=False)


def _consistency(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    both = [row for row in rows if row["base"] == "both"]
    return _stacked(both, (*CALM, *WRONG, "unjudged"), _WORDS, "models that ran on the reference and here", share=True)


def _tolerances(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    paper = [row for row in rows if row["profile"] == "paper"]
    return _stacked(paper, tuple(_ALARMS), _ALARMS, "models, by the paper's tolerance and our verdict", share=False)


def _compiled(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    parts = (*CALM, *WRONG, "failed", "unsupported", "unjudged", "not_judged")
    return _stacked(rows, parts, _WORDS, "models that are consistent in eager", share=True)


def _coverage(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    parts = {"forward_ran": "#5b9bd5", "backward_ran": "#17395c", "never_ran": "#e3e5e9"}
    more = [{**row, "never_ran": row["packets_given"] - row["packets_ran"]} for row in rows]
    return _stacked(more, tuple(parts), parts, "overload packets", share=False)


def _classes(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    chart = (
        alt.Chart(alt.Data(values=[{"classes": row["classes"], "models": row["models"]} for row in rows]))
        .mark_bar(size=24, color="#5b9bd5")
        .encode(
            x=alt.X("classes:O", title="distinct answers", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("models:Q", title="models", axis=alt.Axis(format="d", tickMinStep=1)),
            tooltip=["classes:O", "models:Q"],
        )
    )
    return _finished(chart, height=160, width=min(_WIDTH, 60 + 44 * len(rows)))


def _precision(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    points = [dict(row) for row in rows if row["bits"] is not None]
    if not points:
        return None
    bits = list(range(max(point["bits"] for point in points) + 1))
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_rect()
        .encode(
            y=_platforms(rows),
            x=alt.X("bits:O", title="bits that agree", axis=alt.Axis(labelAngle=0), scale=alt.Scale(domain=bits)),
            color=alt.Color("models:Q", title="models", scale=alt.Scale(range=["#dce9f6", "#0b3a6b"])),
            tooltip=["platform:N", "bits:O", "models:Q", "wrong:Q"],
        )
    )
    return _finished(chart)


def _slowdown(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    keys = ("platform", "size", "models", "median_slowdown", "p90_slowdown")
    points = [{key: row[key] for key in keys} for row in rows if row["size"] != "all"]
    sizes = list(dict.fromkeys(point["size"] for point in points))
    axis = alt.X("median_slowdown:Q", title="times the reference's run time: median to 90th percentile, log scale")
    base = alt.Chart(alt.Data(values=points)).encode(
        y=_platforms(rows),
        yOffset=alt.YOffset("size:N", sort=sizes),
        color=alt.Color("size:N", title=None, sort=sizes, scale=alt.Scale(scheme="viridis")),
        tooltip=["platform:N", "size:N", "models:Q", "median_slowdown:Q", "p90_slowdown:Q"],
    )
    span = base.mark_rule(strokeWidth=2).encode(x=axis.scale(alt.Scale(type="log")), x2="p90_slowdown:Q")
    middle = base.mark_point(filled=True, size=45, opacity=1).encode(x=axis.scale(alt.Scale(type="log")))
    one = alt.Chart(alt.Data(values=[{"x": 1}])).mark_rule(color="#9aa0ab", strokeDash=[3, 3]).encode(x="x:Q")
    return _finished(one + span + middle, height=alt.Step(max(8, 40 // max(1, len(sizes)))))


def _platforms(rows: Sequence[Mapping[str, Any]]) -> Any:
    names = list(dict.fromkeys(row["platform"] for row in rows if row["platform"] != "all"))
    return alt.Y("platform:N", sort=names, title=None, axis=alt.Axis(labelLimit=320))


def _finished(chart: Any, height: Any = None, width: int = _WIDTH) -> dict[str, Any]:
    chart = chart.properties(width=width, height=alt.Step(24) if height is None else height)
    chart = chart.configure_view(stroke=None).configure_legend(
        orient="top", labelFontSize=12, columns=6, labelLimit=260, symbolType="square"
    )
    return chart.configure_axis(
        labelFontSize=12, titleFontSize=12, titleFontWeight="normal", gridColor="#eceef1", domainColor="#9aa0ab"
    ).to_dict()


def spaced(name: str) -> str:
    """Formats a column's name for people."""
    return name.replace("_", " ")


_CHARTS: Final[Mapping[str, Callable[[Sequence[Mapping[str, Any]]], dict[str, Any] | None]]] = {
    "failures": _failures,
    "consistency": _consistency,
    "tolerances": _tolerances,
    "compiled": _compiled,
    "compile_failures": _compile_failures,
    "coverage": _coverage,
    "slowdown": _slowdown,
    "classes": _classes,
    "precision": _precision,
}
