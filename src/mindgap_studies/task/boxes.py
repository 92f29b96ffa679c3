"""Compares boxes. A box is left, top, right, bottom; its sides are right - left and bottom - top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindgap.graph import Array

#: The overlap (intersection over union) from which a box counts as another.
OVERLAP: Final = 0.5
#: The boxes of an image one after the other, their labels, and their scores.
Detections = tuple[Sequence[float], Sequence[int], Sequence[float]]


def box_array(flat: Sequence[float]) -> Array:
    return np.asarray(flat, np.float64).reshape(-1, 4)


def overlaps(ours: Array, theirs: Array) -> Array:
    """Returns intersection over union of each pair of boxes, [N, M]; 0 where the union is empty."""
    low = np.maximum(ours[:, None, :2], theirs[None, :, :2])
    high = np.minimum(ours[:, None, 2:], theirs[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(2)
    union = areas(ours)[:, None] + areas(theirs)[None] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def areas(boxes: Array) -> Array:
    """Returns the area of each box; 0 where it has no inside."""
    return np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(1)


def same_objects(ours: Detections, theirs: Detections, least: float = 0.5) -> bool:
    """Returns whether two detections show the same objects: those that score at least `least` have one partner each,
    with the same label and an overlap of `OVERLAP`."""
    sides = [[place for place, score in enumerate(one[2]) if score >= least] for one in (ours, theirs)]
    if len(sides[0]) != len(sides[1]):
        return False
    shared = overlaps(box_array(ours[0])[sides[0]], box_array(theirs[0])[sides[1]])
    free = np.ones(len(sides[1]), np.bool_)
    for row, place in zip(shared, sides[0], strict=True):
        alike = np.asarray([theirs[1][other] == ours[1][place] for other in sides[1]], np.bool_)
        fits = free & alike & (row >= OVERLAP)
        if not fits.any():
            return False
        free[int(np.where(fits, row, -1.0).argmax())] = False
    return True
