"""Draws charts as SVG, for a light or a dark page, and bars of parts by platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair
import vl_convert

from mindgap_surveys.report.study_page import Chart, spaced

#: Altair's interface is generated, and typed in parts only.
alt: Final[Any] = altair

#: The colour of the text around a figure, and one that is visible on white and on black.
INK: Final = "currentColor"
GRID: Final = "#80808048"
#: Pixels of a chart.
WIDTH: Final = 760


def chart(drawn: Any) -> Chart:
    """Gives a chart of altair the style of the pages, with a transparent background."""
    # Labels are measured in one font, and shown in another where a reader lacks it: room for a wider one.
    drawn = drawn.properties(padding={"left": 60, "top": 10, "right": 120, "bottom": 10})
    drawn = drawn.configure(background="transparent").configure_view(stroke=None)
    drawn = drawn.configure_legend(
        orient="top", labelFontSize=12, columns=6, columnPadding=20, labelLimit=260, labelColor=INK, titleColor=INK
    )
    drawn = drawn.configure_title(color=INK).configure_axis(
        labelFontSize=11, titleFontSize=12, titleFontWeight="normal", gridColor=GRID, domainColor=GRID,
        tickColor=GRID, labelColor=INK, titleColor=INK, labelLimit=400,
    )  # fmt: skip
    return Chart(lambda: vl_convert.vegalite_to_svg(drawn.to_dict()))


def stacked_bars(
    rows: Sequence[Mapping[str, Any]], colours: Mapping[str, str], title: str, *, share: bool, name: str = "platform"
) -> Chart | None:
    """Draws a bar for each row, of its counts in the columns `colours`; None where all are zero. `share`: all bars
    have one length."""
    points = [
        {"row": row[name], "what": spaced(part), "count": row[part], "rank": rank}
        for row in rows
        for rank, part in enumerate(colours)
        if row[part]
    ]
    if not points:
        return None
    there = [part for part in colours if any(point["what"] == spaced(part) for point in points)]
    scale = alt.Scale(domain=list(map(spaced, there)), range=[colours[part] for part in there])
    axis = alt.Axis(format="%") if share else alt.Axis(format="d", tickMinStep=1)
    bars = alt.Chart(alt.Data(values=points)).mark_bar(size=16).encode(
        y=alt.Y("row:N", sort=list(dict.fromkeys(row[name] for row in rows)), title=None),
        x=alt.X("count:Q", title=title, stack="normalize" if share else "zero", axis=axis),
        color=alt.Color("what:N", title=None, scale=scale),
        order=alt.Order("rank:Q"),
    )  # fmt: skip
    return chart(bars.properties(width=WIDTH, height=alt.Step(24)))
