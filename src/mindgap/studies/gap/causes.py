"""Classifies failures by cause in SQL, with the rules of `mindgap.results.failure_rules`."""

from __future__ import annotations

from functools import cache
from typing import Literal

from mindgap.results.failure_rules import Rule, failure_rules
from mindgap.studies.gap.vocabulary import listed


@cache
def classified(wanted: Literal["cause", "type"]) -> str:
    """Returns SQL for the cause or type of a failed outcome, from its columns `status`, `signature` and `message`."""
    cases = "\n         ".join(f"WHEN {_condition(rule)} THEN '{getattr(rule, wanted)}'" for rule in failure_rules())
    return f"CASE {cases}\n         ELSE 'other' END"


def _condition(rule: Rule) -> str:
    parts = [f"status IN {listed(rule.status)}"] if rule.status else []
    for column, patterns in (("signature", rule.signature), ("message", rule.message)):
        if patterns:
            pattern = "|".join(patterns).replace("'", "''")
            parts.append(f"regexp_matches({column}, '{pattern}', 'i')")
    return " AND ".join(parts)
