"""What a delegate really ran: the operators that it took, and those that it gave back.

A runtime may hand parts of a graph to a delegate (XNNPACK, an execution provider, a code generator) and run the rest in
another way. An executable reports this in its `facts` under `KEY`. It is stored with the outcome and shown in reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from mindgap.platforms.protocol import Unsupported

#: The key of an executable's `facts`.
KEY: Final = "delegation"
_MOST_NAMES: Final = 8


@dataclass(frozen=True, slots=True)
class Delegation:
    """Which operators of one graph a delegate ran.

    `delegate`: its name. `ran`: operator -> how often; by the runtime's names where it does not tell ATen's.
    `gave_back`: the same for what ran otherwise, and `otherwise` names what ran it. `parts`: the number of connected
    parts that the delegate got, 0 where the runtime does not tell.
    """

    delegate: str
    ran: Mapping[str, int]
    gave_back: Mapping[str, int] = field(default_factory=dict[str, int])
    otherwise: str = ""
    parts: int = 0

    def as_fact(self) -> dict[str, dict[str, Any]]:
        """An entry for `facts`."""
        return {KEY: asdict(self)}

    @property
    def summary(self) -> str:
        """`XNNPACK ran 12 of 15 operators in 2 parts; the portable kernels ran aten.gelu.default (3)`."""
        ran, rest = sum(self.ran.values()), sum(self.gave_back.values())
        parts = f" in {self.parts} part{'' if self.parts == 1 else 's'}" if self.parts else ""
        text = f"{self.delegate} ran {ran} of {ran + rest} operators{parts}"
        return (
            f"{text}; {self.otherwise or 'another part of the runtime'} ran {_named(self.gave_back)}" if rest else text
        )


def delegation_of(facts: Mapping[str, Any]) -> Delegation | None:
    """Reads the delegation from an executable's or an outcome's facts; None where there is none."""
    delegation = facts.get(KEY)
    return None if delegation is None else Delegation(**delegation)


def total(delegations: Sequence[Delegation]) -> Delegation:
    """Adds the counts of several graphs, one at least, that one delegate was given."""
    ran, rest = Counter[str](), Counter[str]()
    for each in delegations:
        ran.update(each.ran)
        rest.update(each.gave_back)
    parts = sum(each.parts for each in delegations)
    return replace(delegations[0], ran=dict(ran), gave_back=dict(rest), parts=parts)


def require_taken(delegation: Delegation | None) -> None:
    """Raises `Unsupported` if the delegate ran no operator: a result that it did not compute shows nothing of it."""
    if delegation is None or delegation.ran or not delegation.gave_back:
        return
    count = sum(delegation.gave_back.values())
    # One operator is named as the one that it lacks; of several, none is more lacking than the others.
    names = [*delegation.gave_back]
    raise Unsupported(
        names[0] if len(names) == 1 else "model",
        f"{delegation.delegate} took none of {count} operators: {_named(delegation.gave_back)}",
        fallback="took_none",
    )


def computed_before(runtime: str, delegate: str, advice: str = "") -> Unsupported:
    """Returns the refusal of a graph that a runtime computes while it loads it, as one of constants: it is ported, and
    shows nothing of the delegate. `advice`: a clause for the reader."""
    why = f"{runtime} computed all of it before {delegate} got a node"
    return Unsupported("model", f"{why}; {advice}" if advice else why, fallback="computed_before")


def _named(counts: Mapping[str, int]) -> str:
    shown = [f"{name} ({count})" for name, count in sorted(counts.items())]
    more = len(shown) - _MOST_NAMES
    return ", ".join(shown[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
