"""What the values came to by which a program decided while it was captured (`Labels.decisions`), in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from mindgap.graph.graph import Decision, DecisionKind
from mindgap.graph.spec import Array

#: Decisions that a sentence names, and characters of a list of numbers.
_SHOWN: Final = 4
_LENGTH: Final = 40
_ORDINALS: Final = {1: "st", 2: "nd", 3: "rd"}


def outcome_of(kind: DecisionKind, value: Array) -> str:
    """Returns what a value decides, in the form of `Decision.taken`. `value`: on any platform, of any shape."""
    if kind == "size":
        return "x".join(map(str, value.shape))
    if kind == "count":
        return str(int(value.sum()))
    return str(value.tolist())


def path_words(decisions: Sequence[Decision]) -> str:
    """Says in one line which path the decisions led to."""
    found = list(dict.fromkeys(_groups(decisions)))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"the graph holds {', '.join(found[:_SHOWN])}{more}, which these arguments take"


def place_words(decision: Decision) -> str:
    """Where a decision stands: `line model.py:5: x.sum() > 0`."""
    line = f"line {decision.line}" if decision.line else "a line that is not known"
    return f"{line}: `{decision.text}`" if decision.text else line


def otherwise_words(decision: Decision, decisions: Sequence[Decision], came: str) -> str:
    """Says what a platform would do that comes to another decision: `would take the other branch at line …`.

    `came`: what it decides there. `decisions`: all of the graph.
    """
    alike = [each for each in decisions if (each.line, each.text) == (decision.line, decision.text)]
    number = next(i for i, each in enumerate(alike, 1) if each is decision)
    nth = f" the {number}{_ordinal(number)} time" if len(alike) > 1 else ""
    would = {
        "branch": "would take the other branch at", "number": "would go on with another number at",
        "count": "would get another size at", "size": "would get another size at",
    }[decision.kind]  # fmt: skip
    return f"{would} {place_words(decision)}{nth}: {_short(came)}, where the captured path has {_short(decision.taken)}"


def _ordinal(number: int) -> str:
    return "th" if number % 100 in (11, 12, 13) else _ORDINALS.get(number % 10, "th")


def _short(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"


def _groups(decisions: Sequence[Decision]) -> Iterator[str]:
    """Says what each place decided, one after the other."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for each in decisions:
        places.setdefault((each.line, each.text, each.kind), []).append(each.taken)
    for (line, text, kind), taken in places.items():
        at = f" at line {line}" if line else ""
        counts = ", ".join(f"{count} times {_short(value)}" for value, count in Counter(taken).items())
        if text == "while_loop":
            number = taken.count("True")
            yield f"{number} iteration{'' if number == 1 else 's'} of while_loop{at}"
        elif text == "torch.cond":
            yield from (f"the {each.lower()} branch of torch.cond{at}" for each in dict.fromkeys(taken))
        elif len(taken) > 1:
            yield f"`{text}`{at}: {counts if kind == 'branch' else f'{len(taken)} values'}"
        else:
            yield f"`{text}`{at} {_SAYS[kind]} {_short(taken[0])}"


#: What a place decided, before its outcome.
_SAYS: Final = {"branch": "is", "number": "is", "count": "with a sum of", "size": "of size"}
