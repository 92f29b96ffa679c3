"""Draws classes and remaining precision along the nodes of a network as SVG (Figure 5)."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup, escape

from mindgap.studies.deviations.overview import LayerPoint, LayerProfile

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
    """Returns a figure: bits that all platforms share, and the number of classes, by node."""
    step = (_WIDTH - _LEFT - _RIGHT) / len(profile.points)
    places = [_LEFT + step * (i + 0.5) for i in range(len(profile.points))]
    most = max(2, *(point.classes for point in profile.points))
    bits = [_height(point.precision, 0, profile.mantissa, _BITS) for point in profile.points]
    counts = [_height(point.classes, 0, most, _CLASSES) for point in profile.points]
    parts = [
        *(_band(point, x, step) for point, x in zip(profile.points, places, strict=True) if point.kind in _MARKED),
        *(_rule(bit, 0, profile.mantissa, _BITS) for bit in (0, 5, 10, 15, 20, profile.mantissa)),
        *(_rule(count, 0, most, _CLASSES) for count in sorted({0, most // 2, most})),
        _line(places, bits),
        *(f'<rect class="count" x="{x - step * 0.4:.1f}" y="{y:.1f}" width="{step * 0.8:.1f}" '
          f'height="{_CLASSES[1] - y:.1f}"/>' for x, y in zip(places, counts, strict=True)),
        *(_mark(point, i, x, y) for i, (point, x, y) in enumerate(zip(profile.points, places, bits, strict=True), 1)),
        *_numbers(places),
        f'<text x="{_LEFT}" y="9" class="head">remaining precision, bits</text>',
        f'<text x="{_LEFT}" y="{_CLASSES[0] - 8}" class="head">classes</text>',
    ]  # fmt: skip
    least = min(point.precision for point in profile.points)
    label = (
        f"{len(profile.points)} nodes on {profile.platforms} platforms. The smallest remaining precision is {least} "
        f"bits, the largest number of classes {max(point.classes for point in profile.points)}."
    )
    return Markup(
        '<figure class="layers"><figcaption>{}, {} platforms</figcaption><div class="scroll" tabindex="0">'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></div></figure>'
    ).format(profile.title, profile.platforms, _WIDTH, _HEIGHT, label, Markup("".join(parts)))


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
    where = f", {point.module}" if point.module else ""
    classes = f"{point.classes} class{'' if point.classes == 1 else 'es'}"
    title = escape(f"node {number}: {point.operator}{where}: {point.precision} bits, {classes}")
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
