"""Classifies each node by its effect on a difference: introduces, amplifies, propagates or masks it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

import numpy as np
import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph import Graph, operands
from mindgap.judge.oracle.evaluation.formats import widen
from mindgap.judge.trace.subgraphs import Array
from mindgap.results.drawn_graph import SideStatistics, ValueDifference

Role = Literal["introduces", "amplifies", "propagates", "masks"]

#: By how much the relative difference of a node's result exceeds its operands' before it counts as amplified.
AMPLIFIED: Final = 10.0


def node_roles(
    graph: Graph, platform: Mapping[int, Array], reference: Mapping[int, Array], introducers: Collection[int]
) -> tuple[tuple[int, Role], ...]:
    """(node, role) for every node that a difference reaches; nodes that nothing touches are left out.

    `introducers`: nodes confirmed to err on equal operands. The others are classified by the relative difference (root
    mean square over root mean square) of their results against the largest of their operands': ten times more
    amplifies, ten times less, or none, masks. Both mappings hold values by number.
    """
    size: dict[int, float] = {}
    roles: list[tuple[int, Role]] = []
    for index, node in enumerate(graph.nodes):
        made = [graph.first_value[index] + slot for slot in range(len(node.outputs))]
        for number in made:
            if number in platform and number in reference:
                size[number] = relative_difference(platform[number], reference[number])
        after = max((size.get(n, 0.0) for n in made), default=0.0)
        before = max((size.get(n, 0.0) for n in operands(node)), default=0.0)
        if index in introducers:
            roles.append((index, "introduces"))
        elif before > 0 or after > 0:
            roles.append((index, role_of(before, after)))
    return tuple(roles)


def role_of(before: float, after: float) -> Role:
    if before == 0:
        return "introduces"
    if after * AMPLIFIED < before:
        return "masks"
    return "amplifies" if after > AMPLIFIED * before else "propagates"


def relative_difference(ours: Array, theirs: Array) -> float:
    """Root mean square of the difference over that of the reference; infinite for another shape or class."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if ours.size == 0 or bool(np.array_equal(ours.ravel().view(np.uint8), theirs.ravel().view(np.uint8))):
        return 0.0
    if ours.dtype == np.float32:
        quick = _ratio(ours.ravel(), theirs.ravel())
        if quick is not None:
            return quick
    a, b = widen(to_torch(ours)), widen(to_torch(theirs))
    if not (a.is_floating_point() or a.is_complex()):
        return float((a != b).double().mean())
    both = a.isfinite() & b.isfinite()
    if not bool((both == (a.isfinite() | b.isfinite())).all()):
        return float("inf")
    gap, scale = float((a[both] - b[both]).abs().square().sum()), float(b[both].abs().square().sum())
    return (gap / scale) ** 0.5 if scale > 0 else float("inf" if gap > 0 else 0.0)


def _ratio(a: Array, b: Array) -> float | None:
    """‖a - b‖₂ / ‖b‖₂; None where a square overflows or something is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        gap = a - b
        squares, scale = float(np.dot(gap, gap)), float(np.dot(b, b))
    if not (np.isfinite(squares) and np.isfinite(scale)):
        return None
    return float(np.sqrt(squares / scale)) if scale > 0 else float("inf" if squares > 0 else 0.0)


def value_difference(ours: Array, theirs: Array) -> ValueDifference:
    """The statistics of one value on the platform and on the reference, and how far these are apart."""
    a, b = widen(to_torch(ours)), widen(to_torch(theirs))
    max_abs = None
    if a.shape == b.shape and (both := a.isfinite() & b.isfinite()).any():
        # Integers as they are would wrap.
        wide = [each if each.is_floating_point() or each.is_complex() else each.double() for each in (a, b)]
        max_abs = float((wide[0][both] - wide[1][both]).abs().max())
    return ValueDifference(_statistics(a), _statistics(b), max_abs, relative_difference(ours, theirs))


def _statistics(value: torch.Tensor) -> SideStatistics:
    finite = value.isfinite()
    kept = (value.abs() if value.is_complex() else value.double())[finite]
    if not kept.numel():
        return SideStatistics(None, None, None, value.numel())
    return SideStatistics(float(kept.min()), float(kept.max()), float(kept.mean()), value.numel() - kept.numel())
