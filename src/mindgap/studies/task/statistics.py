"""Computes intervals, tests and calibration of shares, in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

#: Bins of the expected calibration error, as in Guo et al., "On Calibration of Modern Neural Networks" (2017).
BINS: Final = 15


@dataclass(frozen=True, slots=True)
class Share:
    """A share of `of` cases, with the ends of its confidence interval."""

    count: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share itself."""
        return self.count / self.of


def wilson(count: int, of: int, level: float = 0.95) -> Share:
    """Returns a share with Wilson's score interval (E. B. Wilson, 1927), without correction for continuity.

    Raises `ValueError` for a share of nothing.
    """
    if not 0 <= count <= of or of == 0:
        raise ValueError(f"{count} of {of} is no share")
    z = NormalDist().inv_cdf((1 + level) / 2)
    p, square = count / of, z * z / of
    centre = (p + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(p * (1 - p) / of + square / (4 * of))
    # At the ends the formula is exact, and floats are not.
    return Share(count, of, 0.0 if count == 0 else centre - half, 1.0 if count == of else centre + half)


def mcnemar(lost: int, gained: int) -> float:
    """Returns the two-sided p-value of McNemar's exact test: are losses and gains equally likely?

    lost: cases that only the reference has right; gained: those that only the platform has. Under the hypothesis,
    `lost` is binomial with probability 1/2 of `lost + gained`. 1 where there is neither.
    """
    total = lost + gained
    tail = sum(math.comb(total, k) for k in range(min(lost, gained) + 1))
    return min(1.0, 2 * tail / 2**total)


def calibration_error(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> float | None:
    """Returns the expected calibration error: the mean over samples of |accuracy - mean confidence| of their bin.

    Bins have equal width, open on the left: a confidence of exactly i/bins belongs to bin i, counted from 1. None
    without samples, or where a confidence is not finite.
    """
    held = np.asarray(confidences, np.float64)
    if not held.size or not np.isfinite(held).all():
        return None
    hits = np.asarray(right, np.float64)
    places = np.clip(np.ceil(held * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(places, minlength=bins)
    apart = np.abs(np.bincount(places, hits, bins) - np.bincount(places, held, bins))
    return float(apart[counts > 0].sum() / held.size)


def perplexity(losses: Sequence[float], tokens: Sequence[int]) -> float | None:
    """Returns exp of the mean negative log-likelihood of a token. `losses`: a mean in nats for each text, of `tokens`.
    None without tokens."""
    total = sum(tokens)
    if not total:
        return None
    mean = math.fsum(loss * count for loss, count in zip(losses, tokens, strict=True)) / total
    return math.exp(mean) if mean < 709 else math.inf
