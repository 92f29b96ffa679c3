"""Defines the values that an argument may be changed to."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mindgap.graph import Arg
from mindgap_campaign.synth.mutation.rules.language import (
    Expression,
    Line,
    Names,
    RuleError,
    Spec,
    parse_expression,
    parse_line,
)
from mindgap_campaign.synth.mutation.rules.program import check_call, check_keys, known_signature
from mindgap_campaign.synth.mutation.schemas import SchemaParameter, fitted

_KEYS: Final = {"operators", "argument", "choices", "draw", "of", "when", "shape", "before", "operands"}
_DRAWS: Final = ("dim", "dims", "permutation", "flip", "small", "length", "index")


@dataclass(frozen=True)
class AttributeRule:
    """A row of `attributes.toml`, for one of its operators.

    The new value is one of `choices`, or drawn (`draw`: a dimension of the operand `of`, …). `when` is evaluated with
    the new value in place. `before`: calls that come first, whose results replace `operands`. `shape`: the result may
    get another shape, so the call is tried on the meta device, and its readers get the old shape back where they need
    it.
    """

    op: str
    argument: str
    type: str
    default: Arg
    choices: tuple[Expression, ...]
    draw: str
    of: str
    when: tuple[Expression, ...]
    shape: bool
    before: tuple[Line, ...]
    operands: Mapping[str, str]

    def value(self, given: Names, spec: Spec, rng: random.Random) -> Arg:
        """Chooses another value for the argument. Raises `ValueError` or `LookupError` if there is none."""
        old: Arg = given.get(self.argument)
        new: Any = rng.choice(self.choices)(given, spec) if self.choices else self._drawn(given, spec, rng)
        if isinstance(old, tuple) and not isinstance(new, tuple):
            width = len(old)
            others = [rng.choice(self.choices)(given, spec) for _ in range(width)] if self.choices else [new] * width
            new = tuple(others) if rng.random() < 0.5 else (new,) * width
        return fitted(new, self.type)  # pyright: ignore[reportUnknownArgumentType] # any argument

    def _drawn(self, given: Names, spec: Spec, rng: random.Random) -> Any:
        old = given.get(self.argument)
        if self.draw == "flip":
            return not old
        if self.draw == "small":
            return 10.0 ** rng.randint(-12, -1)
        shape = spec(given[self.of]).shape
        if self.draw in ("length", "index"):
            size = shape[int(given.get("dim", 0))]
            return rng.randint(1, size) if self.draw == "length" else rng.randrange(-size, size)
        if not shape:
            raise ValueError("a number has no dimensions")
        if self.draw == "dim":
            return rng.randrange(-len(shape), len(shape))
        if self.draw == "permutation":
            return tuple(rng.sample(range(len(shape)), len(shape)))
        return tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape)))))


def parse(row: Mapping[str, Any], where: str) -> list[AttributeRule]:
    """Parses a row into one rule per operator, checked against the schemas. Raises `RuleError`."""
    check_keys(row, _KEYS, ("operators", "argument"), where)
    if ("choices" in row) == ("draw" in row):
        raise RuleError(f"{where}: either 'choices' or 'draw' is wanted")
    if row.get("draw", "flip") not in _DRAWS:
        raise RuleError(f"{where}: no draw is called {row['draw']!r} ({', '.join(_DRAWS)})")
    return [_attribute(row, op, f"{where} ({op}, {row['argument']})") for op in row["operators"]]


def _attribute(row: Mapping[str, Any], op: str, where: str) -> AttributeRule:
    known = known_signature(op, where)
    parameter = known.named.get(row["argument"])
    if parameter is None:
        raise RuleError(f"{where}: {op} has no argument {row['argument']!r} ({', '.join(known.named)})")
    names = set(known.named) | {"new"}
    of = row.get("of") or next((p.name for p in known.parameters if p.tensor), "")
    if of not in known.named:
        raise RuleError(f"{where}: {op} has no argument {of!r} to speak of")
    lines = tuple(parse_line(text, names, where) for text in row.get("before", ()))
    for line in lines:
        check_call(line.op, line.args, line.kwargs, where)
    for operand, name in row.get("operands", {}).items():
        if operand not in known.named or name not in names:
            raise RuleError(f"{where}: operand {operand!r} cannot be {name!r}")
    return AttributeRule(
        op, parameter.name, parameter.type, parameter.default, _choices(row, parameter, names, where),
        row.get("draw", ""), of, tuple(parse_expression(text, names, where) for text in row.get("when", ())),
        bool(row.get("shape", False)), lines, row.get("operands", {}),
    )  # fmt: skip


def _choices(row: Mapping[str, Any], parameter: SchemaParameter, names: set[str], where: str) -> tuple[Expression, ...]:
    """Numbers stand for themselves, strings are expressions over the call's arguments."""
    choices: list[Expression] = []
    for item in row.get("choices", ()):
        text = item if isinstance(item, str) else repr(item)
        choices.append(parse_expression(text, names, where))
    if "choices" in row and not choices:
        raise RuleError(f"{where}: 'choices' is empty for {parameter.name}")
    return tuple(choices)
