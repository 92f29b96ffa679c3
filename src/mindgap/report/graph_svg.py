"""Draws a graph's nodes in layers, with the role that each plays in a difference, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape

from mindgap.results.drawn_graph import DrawnNode

#: What a role means, in the order of the legend. The empty role: the difference does not reach the node.
ROLES: Final = {
    "introduces": "makes the difference from equal operands",
    "fails": "the platform fails here",
    "amplifies": "makes the difference at least ten times larger",
    "propagates": "hands the difference on",
    "masks": "makes the difference at least ten times smaller, or none",
    "": "no difference was seen",
}
#: Which node a picture begins at.
_RANK: Final = {role: rank for rank, role in enumerate(ROLES)}
_WIDTH, _HEIGHT, _ACROSS, _DOWN = 148, 24, 22, 34


def positions(nodes: Sequence[DrawnNode]) -> list[tuple[float, int]]:
    """Returns x of the centre and layer of each node; a node is below all that it reads, and near the middle of them.

    Nodes are in execution order: each reads nodes of smaller index.
    """
    layer: list[int] = []
    for node in nodes:
        layer.append(1 + max((layer[read] for read in node.reads), default=-1))
    layers: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for index, rank in enumerate(layer):
        layers[rank].append(index)
    across = [0.0] * len(nodes)
    for members in layers:
        wanted = {index: _middle(nodes[index], across) for index in members}
        placed: dict[int, float] = {}
        left = -float("inf")
        for index in sorted(members, key=lambda each: (wanted[each], each)):
            left = placed[index] = max(wanted[index], left + _WIDTH + _ACROSS)
        # Whom the others have pushed to the right pulls the whole layer back.
        shift = sum(placed[index] - wanted[index] for index in members) / len(members)
        for index in members:
            across[index] = placed[index] - shift
    return list(zip(across, layer, strict=True))


def _middle(node: DrawnNode, across: Sequence[float]) -> float:
    return sum(across[read] for read in node.reads) / len(node.reads) if node.reads else 0.0


def graph_svg(nodes: Sequence[DrawnNode], name: str) -> Markup:
    """Returns an SVG element that script may zoom and pan. `name`: what the picture shows, for screen readers."""
    places = [(x, layer * (_HEIGHT + _DOWN)) for x, layer in positions(nodes)]
    left, right = (pick(x for x, _ in places) for pick in (min, max))
    bottom = max(y for _, y in places)
    box = (left - _WIDTH / 2 - 20, -20, right - left + _WIDTH + 40, bottom + _HEIGHT + 40)
    edges = "".join(
        _edge(places[read], places[index], node.role and nodes[read].role)
        for index, node in enumerate(nodes)
        for read in node.reads
    )
    boxes = "".join(_box(index, node, *places[index]) for index, node in enumerate(nodes))
    view = " ".join(f"{number:.0f}" for number in box)
    x, y = places[min(range(len(nodes)), key=lambda index: (_RANK[nodes[index].role], index))]
    return Markup(
        f'<svg class="graph" viewBox="{view}" data-view="{view}" data-focus="{x:.0f} {y}" '
        f'style="height: min(60vh, {box[3]:.0f}px)" tabindex="0" role="img" aria-label="{escape(name)}">'
        f"<g>{edges}</g><g>{boxes}</g></svg>"
    )


def _edge(start: tuple[float, float], end: tuple[float, float], differs: str) -> str:
    """An edge; one that skips layers goes round the nodes between."""
    (x1, y1), (x2, y2) = (start[0], start[1] + _HEIGHT), end
    aside = _WIDTH * 0.75 if y2 - y1 > _DOWN + 1 else 0.0
    reach = (y2 - y1) / 3
    path = f"M{x1:.0f} {y1:.0f}C{x1 + aside:.0f} {y1 + reach:.0f} {x2 + aside:.0f} {y2 - reach:.0f} {x2:.0f} {y2:.0f}"
    marked = ' class="differs"' if differs else ""
    return f'<path d="{path}"{marked}/>'


def _box(index: int, node: DrawnNode, x: float, y: float) -> str:
    packet = node.op.split(".")[1] if node.op.count(".") == 2 else node.op
    number = index if node.node < 0 else node.node
    facts = [f"node {number}: {node.op}", f"gives {', '.join(node.made)}", ROLES.get(node.role, node.role), node.label]
    return (
        f'<g class="role-{escape(node.role or "none")}" transform="translate({x - _WIDTH / 2:.0f} {y:.0f})">'
        f"<title>{escape(chr(10).join(filter(None, facts)))}</title>"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}"/>'
        f'<text x="{_WIDTH / 2:.0f}" y="16">{escape(packet[:19])} <tspan>{number}</tspan></text></g>'
    )
