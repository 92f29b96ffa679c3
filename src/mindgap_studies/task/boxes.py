"""Compares boxes. A box is left, top, right, bottom; its sides are right - left and bottom - top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindgap.graph import Array
from mindgap_studies.results.predictions import Prediction

#: The overlap (intersection over union) from which a box counts as another.
OVERLAP: Final = 0.5
#: The score from which a detection counts as an object.
LEAST_SCORE: Final = 0.5


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


def taken(shared: Array, fits: Array) -> list[bool]:
    """Returns for each row, in order, whether it takes a free column that it fits, that of the largest overlap.

    shared: overlaps, [N, M]. fits: [N, M].
    """
    free = np.ones(fits.shape[1], np.bool_)
    rows: list[bool] = []
    for row, allowed in zip(shared, fits, strict=True):
        left = free & allowed
        rows.append(bool(left.any()))
        if rows[-1]:
            free[int(np.where(left, row, -1.0).argmax())] = False
    return rows


def same_objects(ours: Prediction, theirs: Prediction) -> bool:
    """Returns whether two detections show the same objects: those that score at least `LEAST_SCORE` have one partner
    each, with the same label and an overlap of `OVERLAP`."""
    sides = [np.flatnonzero(np.asarray(one.scores) >= LEAST_SCORE) for one in (ours, theirs)]
    if len(sides[0]) != len(sides[1]):
        return False
    shared = overlaps(box_array(ours.boxes)[sides[0]], box_array(theirs.boxes)[sides[1]])
    labels = [np.asarray(one.labels)[side] for one, side in zip((ours, theirs), sides, strict=True)]
    return all(taken(shared, (labels[0][:, None] == labels[1]) & (shared >= OVERLAP)))
