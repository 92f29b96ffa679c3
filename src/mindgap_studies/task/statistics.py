"""Computes tests and calibration of shares, in closed form. Their intervals: `graph.compare.shares`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

#: Bins of the expected calibration error, as in Guo et al., "On Calibration of Modern Neural Networks" (2017).
BINS: Final = 15
#: Cases up to which binomial coefficients are computed as whole numbers: 0.2 s at most.
_EXACT: Final = 80_000


def mcnemar(lost: int, gained: int) -> float:
    """Returns the two-sided p-value of McNemar's exact test: are losses and gains equally likely?

    lost: cases that only the reference has right; gained: those that only the platform has. Under the hypothesis,
    `lost` is binomial with probability 1/2 of `lost + gained`. 1 where there is neither.
    """
    total, fewer = lost + gained, min(lost, gained)
    # The tail is a multiple of its largest term: the term of k - 1 is that of k times k / (total - k + 1).
    term, times = 1.0, 1.0
    for k in range(fewer, 0, -1):
        term *= k / (total - k + 1)
        times += term
        if term < times * 1e-18:
            break
    return min(1.0, 2 * times * _half_probability(total, fewer))


def _half_probability(total: int, count: int) -> float:
    """The binomial probability of `count` of `total` at 1/2. Exact to a rounding up to `_EXACT`, then to 1e-8."""
    if total <= _EXACT:
        return math.comb(total, count) / 2**total
    ways = math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)
    return math.exp(ways - total * math.log(2))


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
