"""Compares the detections of a platform with those of exact arithmetic: each has to be one of these, in any order."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (SciPy is typed in parts)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from mindgap.graph import Array
from mindgap.graph.compare.digest import widened
from mindgap_studies.task_runs.graph_choices import Tie

#: The coordinates of a box, in front of its scores.
_SIDES: Final = 4
_TINY: Final = float(np.finfo(np.float64).tiny)


def in_rows(parts: Sequence[Array]) -> Array:
    """Returns boxes [N, 4] and scores [N] or [N, C] side by side: [N, 4 + C], float64."""
    boxes, scores = (widened(each).astype(np.float64) for each in parts[:2])
    return np.concatenate([boxes, scores.reshape(len(boxes), -1)], 1)


@dataclass(frozen=True)
class ComparedDetections:
    """The detections that a side gives for one sample, beside those of exact arithmetic.

    got, exact, wide, replays: boxes and scores, [N, 4 + C]; `wide` without roundings of results, `replays` with random
    errors. allowed: how far an element may be from `exact` or `wide`; where it `jumps` with a choice of the graph, from
    a replay too. labels: [N] of `got`, of `exact` and of each replay; empty where each class has a score.

    The box and the label of a detection without a score above 0 say nothing: it is none (`outputs.predictions_of`).
    """

    got: Array
    exact: Array
    wide: Array
    allowed: Array
    jumps: Array
    replays: Sequence[Array]
    labels: Sequence[Array]

    @property
    def within(self) -> bool:
        """Whether each detection is one of exact arithmetic within rounding, each of these once. Without labels, the
        order is the same as well: places are anchors."""
        if self._own.all():
            return True
        if not self.labels:
            return False
        places = np.arange(len(self.got))
        fits = csr_array(np.stack([self._fits(row, places) for row in range(len(self.got))]))
        return bool((maximum_bipartite_matching(fits) >= 0).all())

    @property
    def only_jumps(self) -> bool:
        """Whether each detection that is off has elements that jump with a choice, and is within rounding but for
        these."""
        off = ~self._own
        jumps, ratios = self.jumps[off], self._ratios[off]
        return bool(jumps.any(1).all() and (jumps | (ratios <= 1)).all())

    def worst(self) -> Tie:
        """Returns the element that is furthest off what it may be, relative to its limit. Elements that jump with a
        choice come last, after a wrong label, which the result names."""
        ratios = np.where(self._own[:, None], 0.0, self._ratios)
        wrong = np.flatnonzero(~self._own & ((self.jumps | (ratios <= 1)).all(1)) & ~self.jumps.any(1))
        steady = np.where(self.jumps, 0.0, ratios)
        if steady.max() <= 1 and wrong.size:
            row = int(wrong[0])
            mine, right = (int(each[row]) for each in self.labels[:2])
            return Tie(f"label of box {row} is {mine}, and {right} in exact arithmetic", mine, abs(mine - right), 0.0)
        shown = steady if steady.max() > 1 else ratios
        at = np.unravel_index(int(shown.argmax()), shown.shape)
        what = f"{'box' if at[1] < _SIDES else 'score'} {at[0]}"
        return Tie(what, -1, float(self._apart[at]), float(self.allowed[at]))

    @cached_property
    def _own(self) -> Array:
        """Whether each detection fits the one of exact arithmetic in its own place."""
        places = np.arange(len(self.got))
        return self._fits(places, places)

    @cached_property
    def _apart(self) -> Array:
        """How far each element is from the nearer of both shadows, in its own place."""
        nearer = np.minimum(np.abs(self.got - self.exact), np.abs(self.got - self.wide))
        return np.nan_to_num(nearer, nan=np.inf, posinf=np.inf)

    @cached_property
    def _ratios(self) -> Array:
        return self._apart / np.maximum(self.allowed, _TINY)

    def _fits(self, rows: Array | int, slots: Array) -> Array:
        """Whether detections, at `rows`, may be those of exact arithmetic at `slots`: [len(slots)]."""
        got, allowed = self.got[rows], self.allowed[slots]
        near = np.abs(got - self.exact[slots]) <= allowed
        near |= np.abs(got - self.wide[slots]) <= allowed
        none = (got[..., _SIDES:] <= 0).all(-1) & (self.exact[slots, _SIDES:] <= 0).all(-1)
        near[:, :_SIDES] |= none[:, None]
        alike = self._same_label(0, rows, slots) | none
        found = near.all(-1) & alike
        for number, replay in enumerate(self.replays, 1):
            there = near | (self.jumps[slots] & (np.abs(got - replay[slots]) <= allowed))
            found |= there.all(-1) & (self._same_label(number, rows, slots) | none)
        return found

    def _same_label(self, number: int, rows: Array | int, slots: Array) -> Array:
        """Compares with the labels of exact arithmetic (0) or of a replay (from 1 on)."""
        if not self.labels:
            return np.ones(len(slots), np.bool_)
        return np.asarray(self.labels[0][rows] == self.labels[1 + number][slots], np.bool_)
