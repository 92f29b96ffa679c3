"""Draws the figures of the deviations study as SVG."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import altair
import vl_convert

from mindgap_studies import StudyTable, column, records
from mindgap_studies.deviations.published import NamedDendrogram, PublishedStudy
from mindgap_studies.deviations.published.matrix import TITLES
from mindgap_studies.equivalence.ultrametric import Dendrogram

#: Altair's interface is generated, and typed in parts only.
alt: Final[Any] = altair

#: The colour of the text around a figure, and one that is visible on white and on black.
INK: Final = "currentColor"
GRID: Final = "#80808048"
_LINES: Final = ("#5b9bd5", "#c9480b", "#3f9186")
_KERNELS: Final = ("#6d6fc4", "#5b9bd5", "#3f9186", "#d9930d", "#c9480b", "#b0509a")
#: Bits by which the lines of a dendrogram run past the mantissa: classes of equal outputs.
OVERHANG: Final = 1.5
#: Pixels of a label, or of a row of panels, at most.
WIDEST: Final = 700
#: The number of channels that Figure 4 shows.
_CHANNELS: Final = 3
_DASHES: Final = alt.Legend(symbolType="stroke", symbolSize=300, symbolStrokeColor=INK, symbolStrokeWidth=2)


def published_charts(study: PublishedStudy) -> dict[str, str]:
    """Draws the figures of the study. Returns SVG by the figure's name."""
    by_model = {model: [tree for tree in study.by_cast if tree.panel[0] == model] for model in TITLES}
    charts = {
        "figure_1": _cumulative(study.table("figure_1")),
        "figure_2": _by_cores(study.table("figure_2"), column(study.table("table_1"), "platform")),
        "figure_4": _ablation(study.table("figure_4")),
        "figure_6": _dendrograms(by_model["medium"]),
        "figure_sup2": _dendrograms(by_model["small"]),
        "figure_sup3": _dendrograms(by_model["large"]),
    }
    return {name: as_svg(chart) for name, chart in charts.items()}


def cumulative_chart(table: StudyTable) -> str:
    """Draws Figure 1 as SVG, for a light or a dark page."""
    return as_svg(_cumulative(table))


def ablation_chart(table: StudyTable) -> str:
    """Draws Figure 4 as SVG, for a light or a dark page. Of other numbers of channels than 3, it has nothing."""
    return as_svg(_ablation(table))


def _cumulative(table: StudyTable) -> Any:
    """Draws Figure 1: a line for each model (sample 1), over platforms, with the generations below."""
    rows = records(table)
    points = [
        {"position": row["position"], "outputs": row[f"{model}_1"], "model": name}
        for row in rows
        for model, name in TITLES.items()
    ]
    starts = [
        {"position": row["position"] - 0.5, "generation": _group(row)}
        for before, row in zip([None, *rows], rows, strict=False)
        if before is None or _group(before) != _group(row)
    ]
    across = alt.X("position:Q", title="platforms by vendor, generation and cores", scale=alt.Scale(domain=[0.5, 76]))
    lines = (
        alt.Chart(alt.Data(values=points))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=across,
            # Room for the names above the lines.
            y=alt.Y("outputs:Q", title="different outputs so far", scale=alt.Scale(domain=[0, 34], nice=False)),
            color=alt.Color("model:N", title=None, scale=_scale(TITLES.values(), _LINES), sort=list(TITLES.values())),
        )
    )
    marks = alt.Chart(alt.Data(values=starts))
    rules = marks.mark_rule(color=GRID).encode(x="position:Q")
    text = marks.mark_text(angle=270, align="right", baseline="top", dx=-3, dy=3, fontSize=10, color=INK)
    names = text.encode(x="position:Q", y=alt.value(0), text="generation:N")
    return (rules + lines + names).properties(width=760, height=320)


def _group(row: Mapping[str, Any]) -> str:
    """Returns where a platform belongs on the axis of Figure 1. GPUs are too few for names of their generations."""
    return "GPUs" if row["cores"] is None else f"{row['vendor']} {row['generation']}"


def _by_cores(table: StudyTable, platforms: Sequence[str]) -> Any:
    """Draws Figure 2: the class of each processor by the number of cores."""
    rows = records(table)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("cores:O", title="cores", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("platform:N", title=None, sort=list(platforms), axis=alt.Axis(labelLimit=200)),
    )
    numbers = sorted({row["eqc"] for row in rows})
    colours = ("#dce9f6", "#f6e3c5", "#d3ece3", "#f3d6e8", "#e3e5e9")
    squares = base.mark_rect(stroke="white").encode(
        color=alt.Color("eqc:O", title="class among equal cores", scale=_scale(numbers, colours))
    )
    return (squares + base.mark_text(fontSize=12).encode(text="eqc:O")).properties(width=360, height=alt.Step(26))


def _ablation(table: StudyTable) -> Any:
    """Draws Figure 4: remaining precision and classes over multiplications, by kernel and filters."""
    rows = [row for row in records(table) if row["channels"] == _CHANNELS]
    kernels = sorted({row["kernel"] for row in rows})
    powers = alt.Axis(format="~e", values=[10**power for power in range(3, 9)])
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("multiplications:Q", title="multiplications", scale=alt.Scale(type="log"), axis=powers),
        color=alt.Color("kernel:O", title="kernel", scale=_scale(kernels, _KERNELS)),
    )
    # Lines with points of their own would fill the legend of dashes and draw no dash.
    dashed = base.mark_line(strokeWidth=2).encode(strokeDash=alt.StrokeDash("filters:O", legend=_DASHES))
    dots = base.mark_circle(size=28, opacity=1)
    panels = [
        (dashed + dots).encode(y=alt.Y(f"{name}:Q", title=title, axis=axis)).properties(width=340, height=260)
        for name, title, axis in (
            ("remaining_precision", "(a) remaining precision, bits", alt.Axis()),
            ("classes", "(b) classes", alt.Axis(format="d", tickMinStep=1)),
        )
    ]
    return alt.hconcat(*panels)


def _dendrograms(trees: Sequence[NamedDendrogram]) -> Any:
    """Draws dendrograms side by side. A line further to the right joins outputs that share more bits."""
    return alt.hconcat(*(_dendrogram(tree) for tree in trees)).resolve_scale(x="independent", y="independent")


def _dendrogram(named: NamedDendrogram) -> Any:
    title = f"{named.panel[-1]}: {named.classes} {'class' if named.classes == 1 else 'classes'}"
    low = max(0, named.tree.minimum - 2)
    return dendrogram(title, [named.names[i] for i in named.tree.order], named.tree, low).properties(width=210)


def dendrogram(title: Any, names: Sequence[str], tree: Dendrogram, low: int = 0) -> Any:
    """Draws a dendrogram from `low` bits on. `names`: of the leaves, from the top."""
    lines = [{"x": x, "y": y, "x2": x2, "y2": y2} for x, y, x2, y2 in segments(tree)]
    leaves = alt.Axis(
        values=list(range(len(names))), labelExpr=f"{json.dumps(names, ensure_ascii=False)}[datum.value]", grid=False,
        orient="right", ticks=False, labelLimit=WIDEST,
    )  # fmt: skip
    depth = alt.Scale(domain=[low, tree.mantissa + OVERHANG], nice=False)
    place = alt.Scale(domain=[-0.5, len(names) - 0.5], reverse=True, nice=False)
    ticks = [bits for bits in range(low, tree.mantissa + 1) if not bits % 5]
    return (
        alt.Chart(alt.Data(values=lines), title=title)
        .mark_rule(strokeWidth=1.5, color=INK)
        .encode(
            x=alt.X("x:Q", title="remaining precision, bits", scale=depth, axis=alt.Axis(values=ticks)),
            x2="x2:Q",
            y=alt.Y("y:Q", title=None, scale=place, axis=leaves),
            y2="y2:Q",
        )
        .properties(height=18 * len(names))
    )


def segments(tree: Dendrogram) -> Iterator[tuple[float, float, float, float]]:
    """Yields the lines of a dendrogram as x, y, x2, y2: bits, and leaves from 0 downwards.

    Each leaf's line begins right of the mantissa. Lines meet at the bits that their outputs share.
    """
    at = {leaf: position for position, leaf in enumerate(tree.order)}
    ends: dict[int, tuple[float, float]] = {}
    for group in tree.classes():
        heights = [at[leaf] for leaf in group]
        for height in heights:
            yield (tree.mantissa, height, tree.mantissa + OVERHANG, height)
        if len(group) > 1:
            yield (tree.mantissa, min(heights), tree.mantissa, max(heights))
        ends[min(group)] = (tree.mantissa, (min(heights) + max(heights)) / 2)
    for merge in tree.merges():
        joined = [ends.pop(group[0]) for group in merge.groups]
        for x, y in joined:
            yield (merge.bits, y, x, y)
        heights = [y for _, y in joined]
        yield (merge.bits, min(heights), merge.bits, max(heights))
        ends[min(group[0] for group in merge.groups)] = (merge.bits, (min(heights) + max(heights)) / 2)


def _scale(values: Iterable[Any], colours: Sequence[str]) -> Any:
    domain = list(values)
    return alt.Scale(domain=domain, range=list(colours[: len(domain)]))


def as_svg(chart: Any) -> str:
    """Renders a chart as SVG with a transparent background, for a light or a dark page."""
    chart = chart.configure(background="transparent").configure_view(stroke=None)
    chart = chart.configure_legend(orient="top", labelFontSize=12, labelColor=INK, titleColor=INK)
    chart = chart.configure_title(color=INK).configure_axis(
        labelFontSize=11, titleFontSize=12, titleFontWeight="normal", gridColor=GRID, domainColor=GRID,
        tickColor=GRID, labelColor=INK, titleColor=INK,
    )  # fmt: skip
    return vl_convert.vegalite_to_svg(chart.to_dict())
