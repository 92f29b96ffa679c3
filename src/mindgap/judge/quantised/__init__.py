"""Decides about the integers of a quantised graph that a platform gives: one quantised value after the other.

Comes in: a functional graph in which values are rounded, moved by a zero point and saturated, its inputs, and the
integers that a platform gave for some of these values. Goes out: for each value, whether the format allows every
element. Knows nothing of platforms, workers or files. docs/quantised.md states the rule and its sources.
"""

from mindgap.judge.quantised.confirmation import confirmed, sources
from mindgap.judge.quantised.examination import QuantisedExamination, examine_quantised
from mindgap.judge.quantised.values import QuantisedValue, dequantising_scale, quantised_values, shown_parts

__all__ = [
    "QuantisedExamination",
    "QuantisedValue",
    "confirmed",
    "dequantising_scale",
    "examine_quantised",
    "quantised_values",
    "shown_parts",
    "sources",
]
