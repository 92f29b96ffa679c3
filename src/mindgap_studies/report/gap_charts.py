"""Draws the charts of the study of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mindgap.report.chart import COLOURS
from mindgap.results.failure_rules import CAUSES, TYPES
from mindgap_studies.gap.vocabulary import CALM, WRONG
from mindgap_studies.report.drawing import WIDTH, alt, chart, stacked_bars
from mindgap_surveys.report.study_page import Chart
from mindgap_surveys.table import StudyTable, records

_WORDS: Final[Mapping[str, str]] = {
    "identical": "#c9cdd4",
    **COLOURS,
    "structural": "#33363d",
    "failed": "#6d1212",
    "unsupported": "#e9dfe0",
    "no_reference": "#b9a3c9",
    "unjudged": "#f0e442",
    "not_run": "#d8cf3a",
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
_COVERAGE: Final[Mapping[str, str]] = {
    "forward_ran": "#5b9bd5", "backward_ran": "#17395c", "never_ran": "#e3e5e9",
}  # fmt: skip
_JUDGED: Final = (*CALM, *WRONG, "unjudged")
_Rows = Sequence[Mapping[str, Any]]


def chart_of(table: StudyTable) -> Chart | None:
    """Draws a chart of a table; None if it would be empty or add nothing."""
    draw = _CHARTS.get(table.name)
    rows = [row for row in records(table) if row.get("platform") != "all"]
    return None if draw is None or not rows else draw(rows)


def _bars(
    names: Sequence[str], colours: Mapping[str, str], title: str, *, share: bool = False, only: Mapping[str, str] = {}
) -> Callable[[_Rows], Chart | None]:  # fmt: skip
    """Returns what draws stacked bars of the rows with certain cells."""
    chosen = {name: colours[name] for name in names}

    def draw(rows: _Rows) -> Chart | None:
        kept = [row for row in rows if all(row[column] == cell for column, cell in only.items())]
        return stacked_bars(kept, chosen, title, share=share)

    return draw


def _coverage(rows: _Rows) -> Chart | None:
    more = [{**row, "never_ran": row["packets_given"] - row["packets_ran"]} for row in rows]
    return stacked_bars(more, _COVERAGE, "overload packets", share=False)


def _classes(rows: _Rows) -> Chart:
    bars = (
        alt.Chart(alt.Data(values=[{"classes": row["classes"], "models": row["models"]} for row in rows]))
        .mark_bar(size=24, color="#5b9bd5")
        .encode(
            x=alt.X("classes:O", title="distinct answers", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("models:Q", title="models", axis=alt.Axis(format="d", tickMinStep=1)),
        )
    )
    return chart(bars.properties(width=min(WIDTH, 60 + 44 * len(rows)), height=160))


def _precision(rows: _Rows) -> Chart | None:
    points = [dict(row) for row in rows if row["bits"] is not None]
    if not points:
        return None
    bits = list(range(max(point["bits"] for point in points) + 1))
    squares = (
        alt.Chart(alt.Data(values=points))
        .mark_rect()
        .encode(
            y=_platforms(rows),
            x=alt.X("bits:O", title="bits that agree", axis=alt.Axis(labelAngle=0), scale=alt.Scale(domain=bits)),
            color=alt.Color("models:Q", title="models", scale=alt.Scale(range=["#dce9f6", "#0b3a6b"])),
        )
    )
    return chart(squares.properties(width=WIDTH, height=alt.Step(24)))


def _slowdown(rows: _Rows) -> Chart:
    keys = ("platform", "size", "models", "median_slowdown", "p90_slowdown")
    points = [{key: row[key] for key in keys} for row in rows if row["size"] != "all"]
    sizes = list(dict.fromkeys(point["size"] for point in points))
    axis = alt.X("median_slowdown:Q", title="times the reference's run time: median to 90th percentile, log scale")
    axis = axis.scale(alt.Scale(type="log"))
    base = alt.Chart(alt.Data(values=points)).encode(
        y=_platforms(rows),
        yOffset=alt.YOffset("size:N", sort=sizes),
        color=alt.Color("size:N", title=None, sort=sizes, scale=alt.Scale(scheme="viridis")),
    )
    span = base.mark_rule(strokeWidth=2).encode(x=axis, x2="p90_slowdown:Q")
    middle = base.mark_point(filled=True, size=45, opacity=1).encode(x=axis)
    one = alt.Chart(alt.Data(values=[{"x": 1}])).mark_rule(color="#9aa0ab", strokeDash=[3, 3]).encode(x="x:Q")
    return chart((one + span + middle).properties(width=WIDTH, height=alt.Step(max(8, 40 // max(1, len(sizes))))))


def _platforms(rows: _Rows) -> Any:
    return alt.Y("platform:N", sort=list(dict.fromkeys(row["platform"] for row in rows)), title=None)


_CHARTS: Final[Mapping[str, Callable[[_Rows], Chart | None]]] = {
    "totals": _bars([*_WORDS], _WORDS, "comparisons", share=True),
    "failures": _bars(CAUSES, _CAUSES, "outcomes without outputs"),
    "consistency": _bars(
        _JUDGED, _WORDS, "models that ran on the reference and here", share=True, only={"base": "both"}
    ),
    "tolerances": _bars(
        [*_ALARMS], _ALARMS, "models, by the paper's tolerance and our verdict", only={"profile": "paper"}
    ),
    "compiled": _bars(
        (*CALM, *WRONG, "failed", "unsupported", "unjudged", "not_judged"), _WORDS,
        "models that are consistent in eager", share=True,
    ),
    "compile_failures": _bars(TYPES, _CAUSES, "models that fail to compile or run"),
    "coverage": _coverage,
    "slowdown": _slowdown,
    "classes": _classes,
    "precision": _precision,
}  # fmt: skip
