"""Defines identities: small programs that return their input bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindgap.graph import GraphError, Ref, TensorSpec
from mindgap_campaign.synth.mutation.edit import DraftCall
from mindgap_campaign.synth.mutation.rules.language import Expression, Line, RuleError, parse_expression, parse_line
from mindgap_campaign.synth.mutation.rules.program import check_call, check_keys, check_slots, program

_KEYS = {"name", "to", "when", "kinds", "sign"}


@dataclass(frozen=True)
class IdentityRule:
    """A row of `identities.toml`: calls that return their row-major operand `x` unchanged and row-major.

    `lines`: the calls. `when`: conditions on the spec of `x`. `kinds`: kinds of dtypes that the rule is for.
    `sign`: the calls keep the sign of zero. A rule that may turn -0 into +0 is used only before operators to which
    both are equal.
    """

    name: str
    lines: tuple[Line, ...]
    when: tuple[Expression, ...]
    kinds: frozenset[str]
    sign: bool

    def steps(self, value: Ref, spec: TensorSpec) -> tuple[DraftCall, ...] | None:
        """Returns the calls on a value of the graph; None if the rule does not apply to its spec."""
        if spec.kind not in self.kinds:
            return None
        names = {"x": value}
        try:
            if all(condition(names, lambda _: spec) for condition in self.when):
                return program(self.lines, names, lambda _: spec)[0]
        except (LookupError, TypeError, ValueError, ArithmeticError, GraphError):
            return None
        return None


def parse(row: Mapping[str, Any], where: str) -> IdentityRule:
    """Parses a row of the table and checks it against the schemas. Raises `RuleError`."""
    check_keys(row, _KEYS, ("name", "to"), where)
    where = f"{where} ({row['name']})"
    known = {"x"}
    when = tuple(parse_expression(text, known, where) for text in row.get("when", ()))
    lines = tuple(parse_line(text, known, where) for text in row["to"])
    if not lines:
        raise RuleError(f"{where}: 'to' is empty")
    for line in lines:
        check_call(line.op, line.args, line.kwargs, where)
    check_slots(lines, where)
    kinds = frozenset(row.get("kinds", ["float", "int", "bool"]))
    return IdentityRule(row["name"], lines, when, kinds, bool(row.get("sign", True)))
