"""Computes tests and calibration of shares. Their intervals: `mindgap_surveys.shares`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (SciPy is typed in parts)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.stats import binomtest

#: Bins of the expected calibration error, as in Guo et al., "On Calibration of Modern Neural Networks" (2017).
BINS: Final = 15


def mcnemar(lost: int, gained: int) -> float:
    """Returns the two-sided p-value of McNemar's exact test: are losses and gains equally likely?

    lost: cases that only the reference has right; gained: those that only the platform has. Under the hypothesis,
    `lost` is binomial with probability 1/2 of `lost + gained`. 1 where there is neither.
    """
    return float(binomtest(lost, lost + gained).pvalue) if lost + gained else 1.0


def calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> float | None:
    """Returns the expected calibration error: the mean over samples of |accuracy - mean confidence| of their bin.

    Bins have equal width, open on the left: a confidence of exactly i/15 belongs to bin i, counted from 1. None
    without samples, or where a confidence is not finite.
    """
    held = np.asarray(confidences, np.float64)
    if not held.size or not np.isfinite(held).all():
        return None
    hits = np.asarray(right, np.float64)
    places = np.clip(np.ceil(held * BINS).astype(np.int64) - 1, 0, BINS - 1)
    counts = np.bincount(places, minlength=BINS)
    apart = np.abs(np.bincount(places, hits, BINS) - np.bincount(places, held, BINS))
    return float(apart[counts > 0].sum() / held.size)


def perplexity(losses: Sequence[float], tokens: Sequence[int]) -> float | None:
    """Returns exp of the mean negative log-likelihood of a token. `losses`: a mean in nats for each text, of `tokens`.
    None without tokens."""
    total = sum(tokens)
    if not total:
        return None
    mean = math.fsum(loss * count for loss, count in zip(losses, tokens, strict=True)) / total
    return math.exp(mean) if mean < 709 else math.inf
