"""Draws classes and remaining precision along the nodes of a network as SVG (Figure 5)."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup, escape

from mindgap_studies.deviations.overview import LayerPoint, LayerProfile

_WIDTH: Final = 960
_LEFT: Final = 46
_RIGHT: Final = 10
#: Top and bottom of the two panels.
_BITS: Final = (14, 164)
_CLASSES: Final = (196, 276)
_HEIGHT: Final = 312
#: Node numbers below the plot, at most.
_LABELS: Final = 12
_MARKED: Final = ("activation", "pooling")


def layer_plot(profile: LayerProfile) -> Markup:
    """Returns a figure: mantissa bits that platforms share, and the number of classes, by node.

    The line and the bars are of the platforms that show every node. Of a node that more platforms show, a ring has the
    bits that all of these share.
    """
    step = (_WIDTH - _LEFT - _RIGHT) / len(profile.points)
    places = [_LEFT + step * (i + 0.5) for i in range(len(profile.points))]
    most = max(2, *(point.classes or 0 for point in profile.points), *(p.all_classes or 0 for p in profile.points))
    placed = [(i, p, x) for i, (p, x) in enumerate(zip(profile.points, places, strict=True), 1)]
    parts = [
        *(_band(point, x, step) for _, point, x in placed if point.kind in _MARKED),
        *(_rule(bit, 0, profile.mantissa, _BITS) for bit in _bits(profile.mantissa)),
        *(_rule(count, 0, most, _CLASSES) for count in sorted({0, most // 2, most})),
        *(_bar(_shown_classes(profile, point), x, step, most) for _, point, x in placed),
        *_inside(profile, placed),
        *(_ring(profile, point, i, x) for i, point, x in placed if point.shown > max(profile.platforms, 1)),
        *_numbers(places),
        f'<text x="{_LEFT}" y="9" class="head">remaining precision, bits</text>',
        f'<text x="{_LEFT}" y="{_CLASSES[0] - 8}" class="head">classes</text>',
    ]
    return Markup(
        '<figure class="layers"><figcaption>{}, {}</figcaption><div class="scroll" tabindex="0">'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></div>{}</figure>'
    ).format(
        profile.title, _platforms(profile), _WIDTH, _HEIGHT, _label(profile), Markup("".join(parts)), _hidden(profile)
    )


def _platforms(profile: LayerProfile) -> str:
    most = max(point.shown for point in profile.points)
    if not profile.hidden:
        return f"{profile.platforms} platforms"
    return f"{profile.platforms} of {most} platforms show every node"


def _label(profile: LayerProfile) -> str:
    least = min((p.all_precision for p in profile.points if p.all_precision is not None), default=profile.mantissa)
    most = max((point.all_classes or 0 for point in profile.points), default=0)
    return (
        f"{len(profile.points)} nodes, {_platforms(profile)}. The smallest remaining precision is {least} bits, the "
        f"largest number of classes {most}."
    )


def _hidden(profile: LayerProfile) -> Markup:
    """Lists the platforms that do not show every node, with the reason."""
    items = [Markup("<li><b>{}</b> {}</li>").format(name, reason) for name, reason in profile.hidden]
    return Markup('<ul class="hidden">{}</ul>').format(Markup("").join(items)) if items else Markup("")


def _bits(mantissa: int) -> list[int]:
    """Returns the bits with a rule: every fifth, and the last."""
    return [*range(0, mantissa - 2, 5), mantissa]


def _shown_classes(profile: LayerProfile, point: LayerPoint) -> int:
    return (point.classes if profile.platforms > 1 else point.all_classes) or 0


def _bar(classes: int, x: float, step: float, most: int) -> str:
    y = _height(classes, 0, most, _CLASSES)
    size = f'width="{step * 0.8:.1f}" height="{_CLASSES[1] - y:.1f}"'
    return f'<rect class="count" x="{x - step * 0.4:.1f}" y="{y:.1f}" {size}/>'


def _inside(profile: LayerProfile, placed: list[tuple[int, LayerPoint, float]]) -> list[str]:
    """Draws the line and the nodes of the platforms that show every node; nothing for fewer than two of them."""
    if profile.platforms < 2:
        return []
    found = [(i, p, x, _height(p.precision or 0, 0, profile.mantissa, _BITS)) for i, p, x in placed]
    line = _line([x for *_, x, _ in found], [y for *_, y in found])
    return [line, *(_mark(point, i, x, y) for i, point, x, y in found)]


def _ring(profile: LayerProfile, point: LayerPoint, number: int, x: float) -> str:
    """Draws the bits that all platforms share that show a node."""
    y = _height(point.all_precision or 0, 0, profile.mantissa, _BITS)
    title = escape(
        f"node {number}: {point.operator}{_where(point)}, {point.shown} platforms: {point.all_precision} bits, "
        f"{_classes(point.all_classes)}"
    )
    return f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{title}</title></circle>'


def _where(point: LayerPoint) -> str:
    return f", {point.module}" if point.module else ""


def _classes(number: int | None) -> str:
    return f"{number} class{'' if number == 1 else 'es'}"


def _height(value: float, low: float, high: float, panel: tuple[int, int]) -> float:
    return panel[1] - (value - low) / (high - low) * (panel[1] - panel[0])


def _rule(value: int, low: int, high: int, panel: tuple[int, int]) -> str:
    y = _height(value, low, high, panel)
    text = f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="end">{value}</text>'
    return f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>{text}'


def _band(point: LayerPoint, x: float, step: float) -> str:
    return (
        f'<rect class="band {point.kind}" x="{x - step / 2:.1f}" y="{_BITS[0]}" width="{step:.1f}" '
        f'height="{_CLASSES[1] - _BITS[0]}"/>'
    )


def _line(places: list[float], heights: list[float]) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(places, heights, strict=True))
    return f'<path class="bits" d="M{path}"/>'


def _mark(point: LayerPoint, number: int, x: float, y: float) -> str:
    """Draws a node: a triangle for an activation, a square for a pooling, a dot for all others."""
    title = escape(f"node {number}: {point.operator}{_where(point)}: {point.precision} bits, {_classes(point.classes)}")
    if point.kind == "activation":
        shape = f'<path d="M{x:.1f} {y - 5:.1f}l4.5 8h-9z"'
    elif point.kind == "pooling":
        shape = f'<path d="M{x - 4:.1f} {y - 4:.1f}h8v8h-8z"'
    else:
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6"'
    kind = point.kind if point.kind in _MARKED else "other"
    return f'{shape} class="node {kind}"><title>{title}</title></{shape[1:].split(" ")[0]}>'


def _numbers(places: list[float]) -> list[str]:
    step = max(1, -(-len(places) // _LABELS))
    found = [
        f'<text x="{x:.1f}" y="{_CLASSES[1] + 16}" class="middle">{i}</text>'
        for i, x in enumerate(places, 1)
        if i == 1 or not i % step
    ]
    return [*found, f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 2}" class="middle head">node</text>']
