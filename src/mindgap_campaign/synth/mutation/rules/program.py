"""Checks the small programs of rule tables against schemas, and turns them into calls of a draft."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mindgap.graph import Arg, Ref, UnknownOperator
from mindgap_campaign.synth.mutation.edit import DraftCall
from mindgap_campaign.synth.mutation.rules.language import ConstantPattern, Line, Names, RuleError, Spec
from mindgap_campaign.synth.mutation.schemas import SchemaParameter, Signature, call, fits, signature


def program(
    lines: Sequence[Line], bound: Names, spec: Spec, made: int = 0
) -> tuple[tuple[DraftCall, ...], dict[str, Any]]:
    """Builds the steps of the lines. Returns them with all bound names. `made`: the number of slots of earlier steps.

    Raises what expressions raise (`LookupError`, `TypeError`, `ValueError`, `ArithmeticError`) and `GraphError`.
    """
    names = dict(bound)
    steps: list[DraftCall] = []
    for line in lines:
        parameters = signature(line.op).parameters
        given: dict[str, Arg] = {p.name: arg(names, spec) for p, arg in zip(parameters, line.args, strict=False)}
        given |= {name: arg(names, spec) for name, arg in line.kwargs}
        slots = max(signature(line.op).results, len(line.targets))
        steps.append(call(line.op, given, slots))
        names |= {name: Ref(-1 - made - at) for at, name in enumerate(line.targets)}
        made += slots
    return tuple(steps), names


def check_keys(row: Mapping[str, Any], known: Collection[str], required: Sequence[str], where: str) -> None:
    """Checks that a row has all required keys and no unknown ones. Raises `RuleError`."""
    for key in row:
        if key not in known:
            raise RuleError(f"{where}: unknown key {key!r} ({', '.join(sorted(known))})")
    for key in required:
        if key not in row:
            raise RuleError(f"{where}: the key {key!r} is missing")


def known_signature(op: str, where: str) -> Signature:
    """Returns the operator's schema. Raises `RuleError` if there is no such operator."""
    try:
        return signature(op)
    except UnknownOperator:
        raise RuleError(f"{where}: there is no operator {op!r}") from None


def check_call(
    op: str, args: Sequence[Any], kwargs: Sequence[tuple[str, Any]], where: str, *, complete: bool = True
) -> None:
    """Checks that the operator exists and accepts these arguments. Raises `RuleError`."""
    known = known_signature(op, where)
    positional = [p for p in known.parameters if not p.keyword]
    if len(args) > len(positional):
        raise RuleError(f"{where}: {op} takes {len(positional)} arguments by position, {len(args)} are given")
    named = {p.name for p in positional[: len(args)]}
    for name, _ in kwargs:
        if name not in known.named:
            raise RuleError(f"{where}: {op} has no argument {name!r} ({', '.join(known.named)})")
        if name in named:
            raise RuleError(f"{where}: {op} is given {name!r} twice")
        named.add(name)
    missing = [p.name for p in known.parameters if p.required and p.name not in named]
    if complete and missing:
        raise RuleError(f"{where}: {op} is not given {', '.join(missing)}")
    if not complete:
        _check_constants(args, kwargs, known.parameters, known.named, where)


def _check_constants(
    args: Sequence[Any],
    kwargs: Sequence[tuple[str, Any]],
    parameters: Sequence[SchemaParameter],
    named: Mapping[str, SchemaParameter],
    where: str,
) -> None:
    pairs = [*zip(parameters, args, strict=False), *((named[name], arg) for name, arg in kwargs)]
    for parameter, part in pairs:
        if isinstance(part, ConstantPattern) and not fits(part.value, parameter.type):
            raise RuleError(f"{where}: {part.value!r} is no {parameter.type} ({parameter.name})")


def check_slots(lines: Sequence[Line], where: str) -> None:
    """Checks that each line names as many values as its operator returns. Raises `RuleError`."""
    for line in lines:
        results = signature(line.op).results
        if results not in (-1, len(line.targets)) and line.targets:
            raise RuleError(f"{where}: {line.op} returns {results} tensors, {len(line.targets)} are named")
