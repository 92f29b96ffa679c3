"""Computes intervals of shares: errors of a model over a dataset, results of a repeated operator over its runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Share:
    """A share of `of` cases, with the ends of its confidence interval."""

    count: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.count / self.of


def wilson(count: int, of: int) -> Share:
    """Returns a share with Wilson's score interval of 95 % (E. B. Wilson, 1927), without correction for continuity.

    Raises `ValueError` for a share of nothing.
    """
    if not 0 <= count <= of or of == 0:
        raise ValueError(f"{count} of {of} is no share")
    z = NormalDist().inv_cdf(0.975)
    p, square = count / of, z * z / of
    centre = (p + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(p * (1 - p) / of + square / (4 * of))
    # At the ends the formula is exact, and floats are not.
    return Share(count, of, 0.0 if count == 0 else centre - half, 1.0 if count == of else centre + half)
