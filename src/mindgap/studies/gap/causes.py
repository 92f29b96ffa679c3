"""Classifies failures by cause with the rules in causes.toml."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from mindgap.studies.gap.vocabulary import listed

#: Root causes, as Fig. 3 counts them and more, in the order of columns.
CAUSES: Final = (
    *("unsupported_operator", "dtype_refused", "index_out_of_bounds", "shape_mismatch", "memory", "crash"),
    *("time_out", "code_generation", "not_started", "other"),
)
#: Types of compile failures, as Table I counts them. The paper's heap corruption is our crash.
TYPES: Final = ("stalled", "unsupported_operator", "crash", "code_generation", "other")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the cause of a failure.

    It applies if the outcome's status is in `status`, and one pattern each of `signature` and `message` matches. Empty
    fields match everything.
    """

    cause: str
    type: str
    status: tuple[str, ...] = ()
    signature: tuple[str, ...] = ()
    message: tuple[str, ...] = ()


@cache
def rules() -> tuple[Rule, ...]:
    """Reads the rules in their order."""
    text = Path(__file__).with_name("causes.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["rule"]
    lists = ("status", "signature", "message")
    return tuple(Rule(rule["cause"], rule["type"], *(tuple(rule.get(name, ())) for name in lists)) for rule in found)


def rule_of(status: str, signature: str, message: str = "") -> Rule | None:
    """Returns the first rule that applies to a failed outcome, or None. `message`: by default the signature."""
    for rule in rules():
        texts = ((rule.signature, signature), (rule.message, message or signature))
        if (not rule.status or status in rule.status) and all(
            not patterns or any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
            for patterns, text in texts
        ):
            return rule
    return None


@cache
def classified(wanted: Literal["cause", "type"]) -> str:
    """Returns SQL for the cause or type of a failed outcome, from its columns `status`, `signature` and `message`."""
    cases = "\n         ".join(f"WHEN {_condition(rule)} THEN '{getattr(rule, wanted)}'" for rule in rules())
    return f"CASE {cases}\n         ELSE 'other' END"


def _condition(rule: Rule) -> str:
    parts = [f"status IN {listed(rule.status)}"] if rule.status else []
    for column, patterns in (("signature", rule.signature), ("message", rule.message)):
        if patterns:
            pattern = "|".join(patterns).replace("'", "''")
            parts.append(f"regexp_matches({column}, '{pattern}', 'i')")
    return " AND ".join(parts)
