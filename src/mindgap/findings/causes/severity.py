"""Ranks causes by what a user would lose, and by how many models meet the condition of the fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.findings.causes.cause import Damage, Severity
from mindgap.findings.causes.operator_calls import counted_models, models_meeting, models_using
from mindgap.findings.causes.packets import function_of

#: A condition is common if at least one in so many counted models meets it.
COMMON_ONE_IN: Final = 200
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
#: What wrong values cost whose error is below `SLIGHT` of the right ones. They rank like lost precision.
_SLIGHT_LOSS: Final = "It gives values that are wrong by less than a thousandth, without a message"
_OUTSIDE_LOSS: Final = "It reads memory outside a tensor without a message"
SLIGHT: Final = 1e-3
#: (under a common condition, under a rare one).
_SEVERITY: Final[Mapping[Damage, tuple[Severity, Severity]]] = {
    "values": ("critical", "high"),
    "special values": ("high", "medium"),
    "shape": ("high", "medium"),
    "precision": ("medium", "low"),
    "failure": ("medium", "low"),
    "crash": ("medium", "medium"),
    "hang": ("medium", "medium"),
}
#: Orders causes of one severity.
DAMAGES: Final = tuple(_LOSS)


@dataclass(frozen=True, slots=True)
class ConditionUse:
    """Which calls meet the condition of a fault, as far as calls can be counted.

    `functions`: one of them must be called. `where`: a condition on the call (`call_predicate`), "" for every call.
    `condition`: the same in words, for the sentence. `values_only`: the condition is on values of tensors as well,
    which are not counted; then the number is an upper bound. `ordinary_values`: values of ordinary size (0.01 to 100)
    meet it.
    """

    functions: tuple[str, ...]
    where: str = ""
    condition: str = ""
    values_only: bool = False
    ordinary_values: bool = False

    @property
    def text(self) -> str:
        """How many of the counted models meet it, in a few words: `0 of 2,252 (avg_pool2d: 141)`."""
        calls = f"{', '.join(self.functions)}: {models_meeting(self.functions):,}"
        met = f"{models_meeting(self.functions, self.where):,} of {counted_models():,}"
        return f"at most {met} ({calls}); values were not counted" if self.values_only else f"{met} ({calls})"


def severity_of(
    damage: Damage, graphs: Sequence[Sequence[str]], *, use: ConditionUse | None = None, error: float | None = None,
    everywhere: bool = False, internal: bool = False, outside: bool = False, programs: int = 0,
) -> tuple[Severity, str]:  # fmt: skip
    """The severity of a cause, and its reason in one sentence.

    `graphs`: the overloads at fault in each finding. `use`: the condition of the fault; without one, the operators are
    counted: a finding needs all of its own, so that its rarest one counts; of several findings the most used.
    `error`: of wrong values, the largest error relative to the right ones; None where it is not known.
    `everywhere`: it is in all operators of a dtype. `internal`: no public function returns what is wrong. `outside`:
    memory outside a tensor is read. `programs`: further programs of users that meet the condition; one makes it common.
    """
    slight = damage == "values" and not outside and error is not None and error < SLIGHT
    loss = _OUTSIDE_LOSS if outside else _SLIGHT_LOSS if slight else _LOSS[damage]
    if internal:
        return "low", f"{loss}, in results that no public function returns."
    if everywhere:
        return _ranked(damage, slight, outside, common=True), f"{loss}, in every operator of a dtype."
    if use is not None and not use.values_only:
        met = models_meeting(use.functions, use.where)
        common = _is_common(met) or programs > 0
        return _ranked(damage, slight, outside, common=common), f"{loss}, {_counted(use, met)}{_more(programs)}."
    functions = use.functions if use is not None else _most_used(graphs)
    used = models_meeting(functions, "" if use is None else use.where)
    severity = _ranked(damage, slight, outside, common=_is_common(used) or programs > 0)
    if severity == "critical" and not (use is not None and use.ordinary_values):
        severity = "high"
    return severity, f"{loss}, {_uncounted(use, functions, used)}{_more(programs)}."


def _ranked(damage: Damage, slight: bool, outside: bool, *, common: bool) -> Severity:
    alike: Damage = "values" if outside else "precision" if slight else damage
    return _SEVERITY[alike][0 if common else 1]


def _is_common(models: int) -> bool:
    return models * COMMON_ONE_IN >= counted_models()


def _most_used(graphs: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Of the rarest operator of each finding the most used one."""
    rarest = [min(operators, key=models_using) for operators in graphs if operators]
    return (function_of(max(rarest, key=models_using)),) if rarest else ()


def _counted(use: ConditionUse, met: int) -> str:
    """`where `divisor_override` is given, which 0 of 2,252 counted models do (avg_pool2d: 141)`."""
    names, total = ", ".join(use.functions), counted_models()
    if not use.functions:
        return f"where {use.condition}; no call of an operator shows that, so that it was not counted"
    if not use.where:
        return f"in every call of {names}, which {met:,} of {total:,} counted models call"
    where = f"where {use.condition or f'`{use.where}`'}"
    return f"{where}, which {met:,} of {total:,} counted models do ({names}: {models_meeting(use.functions):,})"


def _more(programs: int) -> str:
    return f"; {programs} everyday {'program meets' if programs == 1 else 'programs meet'} it" if programs else ""


def _uncounted(use: ConditionUse | None, functions: Sequence[str], used: int) -> str:
    if not functions and use is not None and use.condition:
        return _counted(use, used)
    if not functions:
        return "in no operator that could be named"
    number = f"{used:,}" if used else "none"
    verb = "call" if used else "calls"
    names, total = ", ".join(functions), f"{counted_models():,}"
    if use is None:
        return f"in {names}, which {number} of {total} counted models {verb}; under which condition was not counted"
    where = f" under a condition on values ({use.condition})" if use.condition else " under a condition on values"
    if use.where:
        return f"in {names}{where}, of which {number} of {total} counted models can meet the rest"
    return f"in {names}{where}; values were not counted, and {number} of {total} counted models {verb} it"
