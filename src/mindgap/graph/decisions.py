"""What the values came to by which a program decided while it was captured (`Labels.decisions`), in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from mindgap.graph.compare.verdict import OtherDecision
from mindgap.graph.graph import Decision, DecisionKind
from mindgap.graph.spec import Array

#: Decisions that a sentence names, and characters of a list of numbers.
_SHOWN: Final = 4
_LENGTH: Final = 40


def outcome_of(kind: DecisionKind, value: Array) -> str:
    """Returns what a value decides, in the form of `Decision.taken`. `value`: on any platform, of any shape."""
    if kind == "size":
        return "x".join(map(str, value.shape))
    if kind == "count":
        return str(int(value.sum()))
    return str(value.tolist())


def path_words(decisions: Sequence[Decision]) -> str:
    """Says in one line which path the decisions led to."""
    groups = list(dict.fromkeys(_groups(decisions)))
    more = f" and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    return f"the graph holds {', '.join(groups[:_SHOWN])}{more}, which these arguments take"


#: What a platform would do that comes to another decision.
_OTHERWISE: Final = {
    "branch": "would take the other branch",
    "number": "would go on with another number",
    "count": "would get another size",
    "size": "would get another size",
    "token": "would go on with another token",
}


def other_decision(each: OtherDecision) -> str:
    """Says in one line what a platform would decide otherwise, or that rounding may."""
    line = f"line {each.line}" if each.line else "a line that is not known"
    time = f" (time {each.time})" if each.time else ""
    place = each.text if each.kind == "token" else f"{line}: `{each.text}`{time}"
    unstable = "" if each.stable else "; the decision is not stable: it is within rounding of the other one"
    if each.came == each.taken:
        return f"at {place} is {_short(each.taken)} as in the captured graph{unstable}"
    outcomes = f"{_short(each.came)} there, {_short(each.taken)} in the captured graph"
    return f"{_OTHERWISE[each.kind]} at {place} is {outcomes}{unstable}"


def _times(count: int) -> str:
    """Says how often: `once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"


def _short(text: str) -> str:
    """Cuts off a long list of numbers."""
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"


def _groups(decisions: Sequence[Decision]) -> Iterator[str]:
    """Says what each place decided, one after the other."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for each in decisions:
        places.setdefault((each.line, each.text, each.kind), []).append(each.taken)
    for (line, text, kind), taken in places.items():
        at = f" at line {line}" if line else ""
        counts = ", ".join(f"{_short(value)} {_times(count)}" for value, count in Counter(taken).items())
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
_SAYS: Final = {"branch": "is", "number": "is", "count": "with a sum of", "size": "of size", "token": "is"}
