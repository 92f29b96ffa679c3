"""Draws the figures of the deviations study of one's own machines as SVG files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from mindgap_studies.deviations.overview import ClassGrid, ClassTree, LayerProfile, Overview
from mindgap_studies.report.deviation_charts import GRID, INK, WIDEST, ablation_chart, alt, as_svg, dendrogram

_COLOURS: Final = (
    "#dce9f6", "#f6e3c5", "#d3ece3", "#f3d6e8", "#e3e5e9", "#e6f0c2", "#f8d5cc", "#d9d5f2", "#cdeef0", "#f2ead0",
)  # fmt: skip
_LINE: Final = "#5b9bd5"
_RING: Final = "#c9480b"
#: Characters of a label.
_LONGEST: Final = 80


def own_charts(page: Overview) -> dict[str, str]:
    """Draws classes, dendrograms, layers, threads, convolutions and casts, as far as there are any. Returns SVG by the
    figure's name: of each model and sample `own_dendrogram-NAME`, of each model `own_figure_5-NAME`."""
    charts = {"own_classes": _drawn(_matrix(page.grid))}
    charts |= {f"own_dendrogram-{_slug(tree.title)}": _drawn(_dendrogram(tree)) for tree in page.trees}
    charts |= {f"own_figure_5-{_slug(each.title)}": layer_chart(each) for each in page.layers}
    if page.by_setting is not None:
        charts["own_figure_2"] = _drawn(_matrix(page.by_setting))
    if page.ablation.rows:
        charts["own_figure_4"] = ablation_chart(page.ablation)
    if page.casts:
        charts["own_figure_6"] = _drawn(alt.vconcat(*map(_dendrogram, page.casts)).resolve_scale(x="independent"))
    return charts


def _drawn(chart: Any) -> str:
    # Labels are measured in one font, and shown in another where a reader lacks it: room for a wider one.
    return as_svg(chart.properties(padding={"left": 60, "top": 10, "right": 120, "bottom": 10}))


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9_.]+", "-", title.lower()).strip("-.")


def _matrix(grid: ClassGrid) -> Any:
    """Draws a class matrix: platforms downwards, models across."""
    heads = [", ".join(head) for head in grid.columns]
    several = len({row.group for row in grid.rows}) > 1
    names = [f"{row.group}: {row.name}" if several else row.name for row in grid.rows]
    cells = [
        {
            "platform": name,
            "model": head,
            "class": cell.text,
            "shade": "none" if cell.number is None else str((cell.number - 1) % len(_COLOURS)),
        }
        for name, row in zip(names, grid.rows, strict=True)
        for head, cell in zip(heads, row.cells, strict=True)
    ]
    domain = ["none", *map(str, range(len(_COLOURS)))]
    base = alt.Chart(alt.Data(values=cells)).encode(
        x=alt.X("model:N", title=None, sort=heads, axis=alt.Axis(labelAngle=-40, labelLimit=400)),
        y=alt.Y("platform:N", title=None, sort=names, axis=alt.Axis(labelLimit=500)),
    )
    squares = base.mark_rect(stroke="white").encode(
        color=alt.Color("shade:N", legend=None, scale=alt.Scale(domain=domain, range=["#ffffff00", *_COLOURS]))
    )
    text = base.mark_text(fontSize=11, color=INK).encode(text="class:N")
    return (squares + text).properties(width=alt.Step(34), height=alt.Step(20))


def _dendrogram(tree: ClassTree) -> Any:
    """Draws classes as leaves. A line further to the right joins classes that share more bits."""
    leaves = [tree.leaves[i] for i in tree.tree.order]
    names = [_short(f"{leaf.number}: {leaf.label}") for leaf in leaves]
    count = f"{len(leaves)} {'class' if len(leaves) == 1 else 'classes'}, {tree.platforms} platforms"
    title = alt.Title(f"{tree.title}: {count}", anchor="start")
    return dendrogram(title, names, tree.tree).properties(width=320)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def layer_chart(profile: LayerProfile) -> str:
    """Draws Figure 5: bits and classes by node, of platforms that show every node. A ring: of all that show it."""
    values = [
        {
            "node": number,
            "bits": point.precision,
            "classes": point.classes if profile.platforms > 1 else point.all_classes,
            "ring": point.all_precision if point.shown > max(profile.platforms, 1) else None,
            "kind": point.kind,
            "what": f"node {number}: {point.operator}{point.module and f', {point.module}'}",
        }
        for number, point in enumerate(profile.points, 1)
    ]
    width = min(WIDEST, max(200, 12 * len(values)))
    ends = [0.5, len(values) + 0.5]
    across = alt.X("node:Q", title="node", scale=alt.Scale(domain=ends, nice=False), axis=alt.Axis(tickMinStep=1))
    bits = alt.Scale(domain=[0, profile.mantissa], nice=False)
    base = alt.Chart(alt.Data(values=values)).encode(x=across)
    panels: list[Any] = []
    if profile.platforms > 1:
        down = alt.Y("bits:Q", title="remaining precision, bits", scale=bits)
        shapes = alt.Shape(
            "kind:N",
            title=None,
            scale=alt.Scale(domain=["activation", "pooling", "other"], range=["triangle-up", "square", "circle"]),
        )
        marked = base.transform_calculate(
            kind="datum.kind == 'activation' || datum.kind == 'pooling' ? datum.kind : 'other'"
        )
        panels += [base.mark_line(color=GRID).encode(y=down)]
        panels += [
            marked.mark_point(filled=True, color=_LINE, opacity=1, size=40).encode(
                y=down, shape=shapes, description="what:N"
            )
        ]
    rings = base.mark_point(filled=False, color=_RING, opacity=1, size=70).transform_filter("datum.ring != null")
    panels.append(rings.encode(y=alt.Y("ring:Q", title="remaining precision, bits", scale=bits), description="what:N"))
    above = alt.layer(*panels).properties(width=width, height=160, title=alt.Title(_caption(profile), anchor="start"))
    counts = base.mark_bar(color=_LINE).encode(y=alt.Y("classes:Q", title="classes", axis=alt.Axis(tickMinStep=1)))
    return _drawn(alt.vconcat(above, counts.properties(width=width, height=80)))


def _caption(profile: LayerProfile) -> Sequence[str]:
    """Returns the title, and a line for each platform that does not show every node."""
    lines = [f"{profile.title}: {profile.platforms} platforms show every node"]
    if profile.hidden:
        lines.append("rings: all platforms that show the node")
    return [*lines, *(_short(f"{name}: {reason}") for name, reason in profile.hidden)]
