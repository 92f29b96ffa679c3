"""Ranks causes by what a user would lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from mindgap.causes.cause import Damage, Severity
from mindgap.causes.packets import function_of

#: A function is common if at least one in so many captured models calls it.
_COMMON_ONE_IN: Final = 200
#: What each damage costs a user who does not look for it.
_LOSS: Final[Mapping[Damage, str]] = {
    "values": "It gives wrong values without a message",
    "special values": "It handles NaN or infinity wrongly without a message",
    "shape": "It gives another shape or dtype without a message",
    "precision": "It gives fewer correct bits than its dtype has without a message",
    "failure": "It fails with a message",
    "crash": "It ends the user's process",
    "hang": "It does not end",
}
#: What wrong values cost whose error is below `SLIGHT` of the right ones. It ranks like lost precision.
_SLIGHT_LOSS: Final = "It gives values that are wrong by less than a thousandth, without a message"
SLIGHT: Final = 1e-3
#: (of a common function, of a rare one).
_SEVERITY: Final[Mapping[Damage, tuple[Severity, Severity]]] = {
    "values": ("critical", "high"),
    "special values": ("high", "medium"),
    "shape": ("high", "medium"),
    "precision": ("medium", "medium"),
    "failure": ("medium", "low"),
    "crash": ("medium", "medium"),
    "hang": ("medium", "medium"),
}
#: Orders causes of one severity.
DAMAGES: Final = tuple(_LOSS)


@cache
def _uses() -> Mapping[str, int]:
    """The number of graphs that call each function; `graphs`: all graphs that were counted."""
    lines = Path(__file__).with_name("operator_use.csv").read_text(encoding="utf-8").splitlines()
    pairs = (line.rsplit(",", 1) for line in lines if not line.startswith("#"))
    return {name: int(count) for name, count in pairs}


def models_using(op: str) -> int:
    """How many of the counted models call the function of an overload; for a gradient, the function that it is of."""
    return _uses().get(function_of(op).removesuffix("_backward"), 0)


def severity_of(
    damage: Damage, graphs: Sequence[Sequence[str]], *, everywhere: bool = False, internal: bool = False,
    slight: bool = False,
) -> tuple[Severity, str]:  # fmt: skip
    """The severity of a cause, and its reason in one sentence.

    `graphs`: the overloads at fault in each finding. A finding needs all of them, so that its rarest one counts; of
    several findings the most used. `everywhere`: it is in all operators of a dtype. `internal`: no public function
    returns what is wrong. `slight`: every element is wrong by less than `SLIGHT` of itself.
    """
    loss = _SLIGHT_LOSS if slight and damage == "values" else _LOSS[damage]
    if internal:
        return "low", f"{loss}, in results that no public function returns."
    rarest = [min(operators, key=models_using) for operators in graphs if operators]
    total, most = _uses()["graphs"], max(rarest, key=models_using, default="")
    used = models_using(most) if most else 0
    common = everywhere or used * _COMMON_ONE_IN >= total
    where = (
        "in every operator of a dtype" if everywhere
        else f"in {function_of(most)}, which {used:,} of {total:,} counted models call" if used
        else f"in {function_of(most)}, which none of {total:,} counted models calls" if most
        else "in no operator that could be named"
    )  # fmt: skip
    ranked = _SEVERITY["precision" if slight and damage == "values" else damage]
    return ranked[0 if common else 1], f"{loss}, {where}."
