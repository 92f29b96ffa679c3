"""Classifies failures by cause with the rules in failure_rules.toml."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

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
def failure_rules() -> tuple[Rule, ...]:
    """Reads the rules in their order."""
    text = Path(__file__).with_name("failure_rules.toml").read_text(encoding="utf-8")
    rules: list[dict[str, Any]] = tomllib.loads(text)["rule"]
    lists = ("status", "signature", "message")
    return tuple(Rule(rule["cause"], rule["type"], *(tuple(rule.get(name, ())) for name in lists)) for rule in rules)


def rule_of(status: str, signature: str, message: str = "") -> Rule | None:
    """Returns the first rule that applies to a failed outcome, or None. `message`: by default the signature."""
    for rule in failure_rules():
        texts = ((rule.signature, signature), (rule.message, message or signature))
        if (not rule.status or status in rule.status) and all(
            not patterns or any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
            for patterns, text in texts
        ):
            return rule
    return None
