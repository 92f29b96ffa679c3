"""Draws the figures of the deviations study, of published data and of one's own machines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from mindgap_studies.deviations.overview import ClassTree, LayerProfile, Overview
from mindgap_studies.deviations.published.matrix import TITLES
from mindgap_studies.equivalence.dendrogram import Dendrogram
from mindgap_studies.report.drawing import GRID, INK, WIDTH, alt, chart
from mindgap_surveys.report.study_page import Cell, Chart
from mindgap_surveys.table import StudyTable, records

_LINES: Final = ("#5b9bd5", "#c9480b", "#3f9186")
_SHADES: Final = (
    "#dce9f6", "#f6e3c5", "#d3ece3", "#f3d6e8", "#e3e5e9", "#e6f0c2", "#f8d5cc", "#d9d5f2", "#cdeef0", "#f2ead0",
)  # fmt: skip
_LINE: Final = "#5b9bd5"
_RING: Final = "#c9480b"
#: Characters of a label.
_LONGEST: Final = 80
_KERNELS: Final = ("#6d6fc4", "#5b9bd5", "#3f9186", "#d9930d", "#c9480b", "#b0509a")
#: Bits by which the lines of a dendrogram run past the mantissa: classes of equal outputs.
OVERHANG: Final = 1.5
#: Pixels of a label, or of a row of panels, at most.
WIDEST: Final = 700
#: The number of channels that Figure 4 shows.
_CHANNELS: Final = 3
_DASHES: Final = alt.Legend(symbolType="stroke", symbolSize=300, symbolStrokeColor=INK, symbolStrokeWidth=2)


def study_charts(page: Overview, prefix: str = "") -> dict[str, Chart]:
    """Draws classes, dendrograms, layers, settings, convolutions and casts, as far as there are any, by the figure's
    name: of each model and sample `dendrogram-NAME`, of each model `figure_5-NAME`. `prefix`: of all names."""
    charts = {"classes": chart(_matrix(page.grid))}
    charts |= {f"dendrogram-{_slug(tree.title)}": tree_chart(tree) for tree in page.trees}
    charts |= {f"figure_5-{_slug(each.title)}": layer_chart(each) for each in page.layers}
    if page.cumulative is not None:
        charts["figure_1"] = cumulative_chart(page.cumulative)
    if page.by_setting is not None:
        charts["figure_2"] = chart(_matrix(page.by_setting))
    if page.ablation.rows:
        charts["figure_4"] = ablation_chart(page.ablation)
    if page.casts:
        charts["figure_6"] = chart(alt.vconcat(*map(_tree, page.casts)).resolve_scale(x="independent"))
    return {f"{prefix}{name}": drawn for name, drawn in charts.items()}


def cumulative_chart(table: StudyTable) -> Chart:
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
    return chart((rules + lines + names).properties(width=WIDTH, height=320))


def _group(row: Mapping[str, Any]) -> str:
    """Returns where a platform belongs on the axis of Figure 1. GPUs are too few for names of their generations."""
    return "GPUs" if row["cores"] is None else f"{row['vendor']} {row['generation']}"


def ablation_chart(table: StudyTable) -> Chart:
    """Draws Figure 4. Of other numbers of channels than 3, it has nothing."""
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
    return chart(alt.hconcat(*panels))


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


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9_.]+", "-", title.lower()).strip("-.")


def _matrix(grid: StudyTable) -> Any:
    """Draws a class matrix (`class_grid`): platforms downwards, models across."""
    heads = list(grid.columns[2:])
    rows = [row for row in grid.rows if isinstance(row[2], Cell)]
    groups: list[str] = []
    for row in rows:
        groups.append(row[0] or groups[-1])
    names = [f"{group}: {row[1]}" if len(set(groups)) > 1 else row[1] for group, row in zip(groups, rows, strict=True)]
    cells = [
        {"platform": name, "model": head, "class": cell.text,
         "shade": "none" if cell.hue is None else str((cell.hue - 1) % len(_SHADES))}
        for name, row in zip(names, rows, strict=True)
        for head, cell in zip(heads, row[2:], strict=True)
    ]  # fmt: skip
    domain = ["none", *map(str, range(len(_SHADES)))]
    base = alt.Chart(alt.Data(values=cells)).encode(
        x=alt.X("model:N", title=None, sort=heads, axis=alt.Axis(labelAngle=-40, labelLimit=400)),
        y=alt.Y("platform:N", title=None, sort=names, axis=alt.Axis(labelLimit=500)),
    )
    squares = base.mark_rect(stroke="white").encode(
        color=alt.Color("shade:N", legend=None, scale=alt.Scale(domain=domain, range=["#ffffff00", *_SHADES]))
    )
    text = base.mark_text(fontSize=11, color=INK).encode(text="class:N")
    return (squares + text).properties(width=alt.Step(34), height=alt.Step(20))


def tree_chart(tree: ClassTree) -> Chart:
    return chart(_tree(tree))


def _tree(tree: ClassTree) -> Any:
    """Draws classes as leaves. A line further to the right joins classes that share more bits."""
    leaves = [tree.leaves[i] for i in tree.tree.order]
    names = [_short(f"{leaf.number}: {leaf.label}") for leaf in leaves]
    count = f"{len(leaves)} {'class' if len(leaves) == 1 else 'classes'}, {tree.platforms} platforms"
    lines = [{"x": x, "y": y, "x2": x2, "y2": y2} for x, y, x2, y2 in segments(tree.tree)]
    axis = alt.Axis(
        values=list(range(len(names))), labelExpr=f"{json.dumps(names, ensure_ascii=False)}[datum.value]", grid=False,
        orient="right", ticks=False, labelLimit=WIDEST,
    )  # fmt: skip
    depth = alt.Scale(domain=[0, tree.tree.mantissa + OVERHANG], nice=False)
    place = alt.Scale(domain=[-0.5, len(names) - 0.5], reverse=True, nice=False)
    ticks = alt.Axis(values=list(range(0, tree.tree.mantissa + 1, 5)))
    return (
        alt.Chart(alt.Data(values=lines), title=alt.Title(f"{tree.title}: {count}", anchor="start"))
        .mark_rule(strokeWidth=1.5, color=INK)
        .encode(
            x=alt.X("x:Q", title="remaining precision, bits", scale=depth, axis=ticks),
            x2="x2:Q",
            y=alt.Y("y:Q", title=None, scale=place, axis=axis),
            y2="y2:Q",
        )
        .properties(height=18 * len(names), width=320)
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def layer_chart(profile: LayerProfile) -> Chart:
    several, most = profile.platforms > 1, max(profile.platforms, 1)
    values = [
        {
            "node": number,
            "bits": row["remaining_precision"],
            "classes": row["classes" if several else "their_classes"],
            "ring": row["their_remaining_precision"] if row["platforms_that_show_it"] > most else None,
            "kind": row["kind"],
            "what": ", ".join(filter(None, (f"node {number}: {row['operator']}", row["module"]))),
        }
        for number, row in enumerate(profile.points, 1)
    ]
    width = min(WIDEST, max(200, 12 * len(values)))
    ends = [0.5, len(values) + 0.5]
    across = alt.X("node:Q", title="node", scale=alt.Scale(domain=ends, nice=False), axis=alt.Axis(tickMinStep=1))
    bits = alt.Scale(domain=[0, profile.mantissa], nice=False)
    base = alt.Chart(alt.Data(values=values)).encode(x=across)
    panels: list[Any] = []
    if several:
        down = alt.Y("bits:Q", title="remaining precision, bits", scale=bits)
        shapes = alt.Shape(
            "kind:N",
            title=None,
            scale=alt.Scale(domain=["activation", "pooling", "other"], range=["triangle-up", "square", "circle"]),
        )
        marked = base.transform_calculate(
            kind="datum.kind == 'activation' || datum.kind == 'pooling' ? datum.kind : 'other'"
        )
        points = marked.mark_point(filled=True, color=_LINE, opacity=1, size=40)
        panels += [base.mark_line(color=GRID).encode(y=down)]
        panels += [points.encode(y=down, shape=shapes, description="what:N")]
    rings = base.mark_point(filled=False, color=_RING, opacity=1, size=70).transform_filter("datum.ring != null")
    panels.append(rings.encode(y=alt.Y("ring:Q", title="remaining precision, bits", scale=bits), description="what:N"))
    caption = [f"{profile.title}: {profile.platforms} platforms show every node"]
    if profile.hidden:
        caption.append("rings: all platforms that show the node")
    caption += [_short(f"{name}: {reason}") for name, reason in profile.hidden]
    above = alt.layer(*panels).properties(width=width, height=160, title=alt.Title(caption, anchor="start"))
    counts = base.mark_bar(color=_LINE).encode(y=alt.Y("classes:Q", title="classes", axis=alt.Axis(tickMinStep=1)))
    return chart(alt.vconcat(above, counts.properties(width=width, height=80)))
