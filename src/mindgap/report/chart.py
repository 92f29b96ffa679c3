"""Makes the chart of a report's page, and the JavaScript that draws it offline."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any, Final

import altair
import vl_convert

from mindgap.report.words import short
from mindgap.workflows.diff import Report

#: Altair's interface is generated, and typed in parts only.
alt: Final[Any] = altair

#: Fill of a mark by verdict, as in page.css, but dark enough for a mark on white.
COLOURS: Final = {
    "rounding": "#5b9bd5",
    "ill_conditioned": "#3f9186",
    "undefined": "#8d8257",
    "internal": "#7d74b3",
    "reduced_precision": "#d9930d",
    "discrepant": "#c9480b",
    "exceptional": "#8a2f74",
    "export": "#6b3fa0",
    "reference_failed": "#0a5fa5",
}
#: A shape per verdict as well: a fifth of the readers cannot go by colour alone.
_SHAPES: Final = {
    "rounding": "circle",
    "ill_conditioned": "square",
    "undefined": "diamond",
    "internal": "triangle-right",
    "reduced_precision": "triangle-down",
    "discrepant": "triangle-up",
    "exceptional": "cross",
    "export": "M-1,-0.35H1V0.35H-1Z",  # a bar: a filled "stroke" has no area, and is not seen
    "reference_failed": "triangle-left",
}
_DRAW: Final = 'window.draw = (place, spec) => vegaEmbed(place, spec, {actions: false, renderer: "svg"});'


def difference_chart(report: Report) -> dict[str, Any] | None:
    """Makes a Vega-Lite chart of relative error by platform, a mark per model; None without data.

    The relative error is over whole outputs: unlike ulp or bits, it is not large where one value near zero differs.
    """
    shift = random.Random(0)
    points = [
        {
            "platform": row.platform,
            "model": row.model,
            "verdict": short(row.word),
            "error": error,
            "opacity": 0.9 if row.finding else 0.35,
            "culprit": row.culprit.op if row.culprit else "–",
            "shift": shift.random(),
        }
        for row in report.rows
        if isinstance(error := row.metrics.get("relative_error"), float)
        and 0 < error < math.inf
        and row.word in COLOURS
    ]
    if not points:
        return None
    words = [word for word in COLOURS if any(p["verdict"] == short(word) for p in points)]
    names = [short(word) for word in words]
    platforms = list(dict.fromkeys(row.platform for row in report.rows))
    base = alt.Chart(alt.Data(values=points)).encode(
        y=alt.Y("platform:N", sort=platforms, title=None, axis=alt.Axis(labelLimit=320, grid=True, tickBand="extent"))
    )
    marks = base.mark_point(filled=True, size=55).encode(
        x=alt.X(
            "error:Q",
            title="relative error of the worst output",
            axis=alt.Axis(format=".0e", tickCount=10),
            scale=alt.Scale(type="log"),
        ),
        yOffset=alt.YOffset("shift:Q", scale=alt.Scale(domain=[-0.15, 1.15])),
        opacity=alt.Opacity("opacity:Q", legend=None, scale=None),
        color=alt.Color("verdict:N", title=None, scale=alt.Scale(domain=names, range=[COLOURS[w] for w in words])),
        shape=alt.Shape("verdict:N", title=None, scale=alt.Scale(domain=names, range=[_SHAPES[w] for w in words])),
        tooltip=["model:N", "platform:N", "verdict:N", alt.Tooltip("error:Q", format=".2e"), "culprit:N"],
    )
    middle = base.mark_tick(thickness=2, color="#16181d", height=22).encode(x=alt.X("median(error):Q"))
    chart = (middle + marks).properties(width=760, height=alt.Step(30)).configure_view(stroke=None)
    chart = chart.configure_legend(orient="top", labelFontSize=12).configure_axis(
        labelFontSize=12, titleFontSize=12, titleFontWeight="normal", gridColor="#eceef1", domainColor="#9aa0ab"
    )
    return chart.to_dict()


@cache
def bundle() -> str:
    """Returns Vega, Vega-Lite and vega-embed as one script that defines `draw(place, spec)`."""
    # A closing tag inside a string of the libraries would end our own script element.
    return vl_convert.javascript_bundle(_DRAW).replace("</script", "<\\/script")
