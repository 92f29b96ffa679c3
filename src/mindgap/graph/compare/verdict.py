"""Verdicts and blames: the words for the comparison of two outcomes."""

from __future__ import annotations

from typing import Final, Literal

Verdict = Literal[
    "identical",
    "rounding",
    "ill_conditioned",
    "undefined",
    "internal",
    "discrepant",
    "exceptional",
    "reduced_precision",
    "structural",
    "export",
    "failed",
    "reference_failed",
]
Blame = Literal["platform", "reference", "undecided"]

#: Nothing for a person to look at.
CALM: Final[frozenset[str]] = frozenset({"identical", "rounding", "ill_conditioned", "undefined", "internal"})
#: Worth a person's time, worst first: the order in which a table sorts them.
FINDINGS: Final[tuple[Verdict, ...]] = (
    "failed",
    "export",
    "structural",
    "exceptional",
    "discrepant",
    "reduced_precision",
    "reference_failed",
)
