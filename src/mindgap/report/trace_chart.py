"""Makes the chart of a trace: the mean absolute distance of each value along the data flow."""

from __future__ import annotations

from typing import Any, Final

import altair

from mindgap.judge.trace.value_trace import TracedValue, ValueTrace

#: Altair's interface is generated, and typed in parts only.
alt: Final[Any] = altair

#: Fill of a mark by role; a shape as well, since a fifth of the readers cannot go by colour alone.
ROLES: Final = {
    "introduces": ("#c9480b", "triangle-up"),
    "amplifies": ("#d9930d", "diamond"),
    "propagates": ("#5b9bd5", "circle"),
    "masks": ("#3f9186", "square"),
}
#: Fill of a value in the strip below, by its state.
STATES: Final = {"equal": "#d9dce2", "differs": "#5b9bd5", "inside": "#33363d"}


def distance_chart(trace: ValueTrace) -> dict[str, Any]:
    """Makes a Vega-Lite chart: a mark per value that differs, and a strip with the state of every value.

    The horizontal axis, the position of the value, can be moved and zoomed.
    """
    points = [_point(place, value) for place, value in enumerate(trace.values)]
    zoom = alt.selection_interval(bind="scales", encodings=["x"])
    x = alt.X("place:Q", title=None, axis=alt.Axis(format="d", tickMinStep=1), scale=alt.Scale(nice=False))
    exponents = alt.Axis(format="~e")
    tooltip = ["value:N", "where:N", "state:N", "role:N", "distance:Q", "rate:Q"]
    drawn = sorted((each for each in points if each["distance"]), key=lambda each: each["role"] != "propagates")
    marks = (
        alt.Chart(alt.Data(values=drawn))
        .mark_point(filled=True, opacity=0.9)
        .encode(
            x=x,
            y=alt.Y("distance:Q", title="mean absolute distance", scale=alt.Scale(type="log"), axis=exponents),
            color=_scale(alt.Color, "role:N", {role: fill for role, (fill, _) in ROLES.items()}),
            shape=_scale(alt.Shape, "role:N", {role: shape for role, (_, shape) in ROLES.items()}),
            size=alt.condition(alt.datum.role == "propagates", alt.value(30), alt.value(110)),
            tooltip=tooltip,
        )
        .properties(width=1080, height=300)
        .add_params(zoom)
    )
    strip = (
        alt.Chart(alt.Data(values=points))
        .mark_tick(thickness=2, height=16)
        .encode(x=x, color=_scale(alt.Color, "state:N", STATES), tooltip=tooltip)
        .properties(width=1080, height=18)
        .add_params(alt.selection_interval(bind="scales", encodings=["x"], name="strip"))
    )
    chart = alt.vconcat(marks, strip, spacing=4).resolve_scale(color="independent", shape="independent", x="shared")
    return chart.configure_view(stroke=None).configure_legend(orient="top", labelFontSize=12).to_dict()


def _point(place: int, value: TracedValue) -> dict[str, Any]:
    return {
        "place": place,
        "value": f"{value.op} (node {value.node})",
        "where": value.label or "–",
        "state": value.state,
        "role": value.role or "–",
        "distance": value.mad if value.mad != float("inf") else None,
        "rate": value.rate if value.rate != float("inf") else None,
    }


def _scale(channel: Any, field: str, values: dict[str, str]) -> Any:
    return channel(field, title=None, scale=alt.Scale(domain=list(values), range=list(values.values())))
