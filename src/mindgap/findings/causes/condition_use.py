"""Translates the condition that a reduction found, in words, to one that can be counted over captured models."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Final

from mindgap.findings.causes.key import operators_at_fault
from mindgap.findings.causes.operator_calls import models_meeting, models_using
from mindgap.findings.causes.packets import function_of
from mindgap.findings.causes.severity import ConditionUse
from mindgap.findings.reduction.files import Summary
from mindgap.graph import MindgapError

#: The text of a reduction where every neighbour shows the fault.
ANY_INPUT: Final = "any input tried"
_RANK: Final = "max(len(s) for s in shapes)"
_DTYPE: Final = r"(?:b?float|u?int|complex|bool)\w*"
#: A fact as `mindgap.findings.reduction.condition_words` writes it -> the same as a condition on one call.
_FACTS: Final[tuple[tuple[str, Callable[[re.Match[str]], str]], ...]] = (
    (r"(\d+)-d input", lambda m: f"{_RANK} == {m[1]}"),
    (r"input of (\d+) dimensions or more", lambda m: f"{_RANK} >= {m[1]}"),
    (r"input of at most (\d+) dimensions?", lambda m: f"{_RANK} <= {m[1]}"),
    (r"input of ([\d, or]+) dimensions", lambda m: f"{_RANK} in ({', '.join(re.findall('[0-9]+', m[1]))},)"),
    (r"an empty input", lambda _: "any(0 in s for s in shapes)"),
    (r"dimensions of size 1", lambda _: "all(n == 1 for s in shapes for n in s)"),
    (r"sizes of (\d+) or more", lambda m: f"max(n for s in shapes for n in s) >= {m[1]}"),
    (r"dimension (\d+) of size (\d+)", lambda m: f"shapes[0][{m[1]}] == {m[2]}"),
    (r"dimension (\d+) of operand (\d+) of size (\d+)", lambda m: f"shapes[{m[2]}][{m[1]}] == {m[3]}"),
    (r"negative `(\w+)`", lambda m: f"args['{m[1]}'] < 0"),
    (r"`(\w+)` not counted from the end", lambda m: f"args['{m[1]}'] >= 0"),
    (r"with `(\w+)`", lambda m: f"('{m[1]}' in tensors or args['{m[1]}'] is not None)"),
    (r"`(\w+)` other than ([^`]+)", lambda m: f"args['{m[1]}'] != {_literal(m[2])}"),
    (r"`(\w+)=([^`]*)`", lambda m: f"args['{m[1]}'] == {_literal(m[2])}"),
    (rf"dtype ({_DTYPE}) only", lambda m: f"'{m[1]}' in dtypes"),
    (rf"dtype ({_DTYPE}(?:, {_DTYPE})* or {_DTYPE})", lambda m: f"any(d in {_dtypes(m[1])} for d in dtypes)"),
)


def use_of_condition(summary: Summary) -> ConditionUse | None:
    """Which calls meet the condition of a reduced finding; None where none was looked for.

    What cannot be counted (values, layouts, constants, several operators) is left out; then `values_only` means that
    the count is an upper bound.
    """
    operators = tuple(dict.fromkeys(operators_at_fault(summary)))
    if not summary.condition or not operators:
        return None
    words = "" if summary.condition == ANY_INPUT else summary.condition
    functions = (function_of(min(operators, key=models_using)),)
    first, *others = operators
    if others:
        return ConditionUse(functions, "", words, values_only=True)
    parts: list[str] = [_predicate(fact, first) for fact in _facts(words)] if words else []
    where = " and ".join(part for part in parts if part)
    try:
        models_meeting(functions, where)
    except MindgapError:  # a fact about an argument of another overload
        where, parts = "", [""]
    return ConditionUse(functions, where, words, values_only=not all(parts))


def _predicate(fact: str, op: str) -> str:
    """The fact as a condition on a call, "" where it cannot be counted."""
    if fact == "input without a batch dimension":
        spatial = re.search(r"([123])d", op)
        return f"len(shapes[0]) == {int(spatial[1]) + 1}" if spatial else ""
    for pattern, predicate in _FACTS:
        match = re.fullmatch(pattern, fact)
        if match is not None:
            return predicate(match)
    return ""


def _facts(words: str) -> list[str]:
    """The facts, which are joined by commas and may hold some: the longest parts that are facts."""
    parts, facts = words.split(", "), list[str]()
    while parts:
        joined = (", ".join(parts[:count]) for count in range(len(parts), 1, -1))
        fact = next((each for each in joined if any(re.fullmatch(p, each) for p, _ in _FACTS)), parts[0])
        facts.append(fact)
        parts = parts[fact.count(", ") + 1 :]
    return facts


def _literal(text: str) -> str:
    """A value in words as Python: what is no number, list or text in quotes is text, such as a dtype."""
    try:
        return repr(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        return repr(text)


def _dtypes(text: str) -> Sequence[str]:
    return tuple(re.findall(r"\w+", text.replace(" or ", " ")))
