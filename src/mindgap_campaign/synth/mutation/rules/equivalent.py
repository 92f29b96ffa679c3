"""Defines equivalent formulations: a call to match, and the small program that computes the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindgap.graph import GraphError, Node, Ref
from mindgap_campaign.synth.mutation.dataflow import DataFlow
from mindgap_campaign.synth.mutation.edit import Rewrite
from mindgap_campaign.synth.mutation.rules.language import (
    CallPattern,
    ConstantPattern,
    Expression,
    Line,
    RuleError,
    parse_expression,
    parse_line,
    parse_pattern,
)
from mindgap_campaign.synth.mutation.rules.program import check_call, check_keys, check_slots, program
from mindgap_campaign.synth.mutation.schemas import arguments, signature

_KEYS = {"name", "from", "to", "gives", "when", "kinds", "mixed", "samples", "low", "high"}


@dataclass(frozen=True)
class EquivalentRule:
    """A row of `equivalent.toml`.

    `kinds`: what the tensors that the pattern binds may be; they share one dtype unless `mixed`. `gives`: for each
    slot of the old call the name of the value that stands for it (None: it must be unread). `samples`: for each
    variable a shape or a number, several times over, with which the rule is proven; values in [low, high).
    """

    name: str
    pattern: CallPattern
    lines: tuple[Line, ...]
    gives: tuple[str | None, ...]
    when: tuple[Expression, ...]
    kinds: frozenset[str]
    mixed: bool
    samples: tuple[Mapping[str, Any], ...]
    low: float
    high: float

    def rewrite(self, flow: DataFlow, index: int) -> Rewrite | None:
        """Returns the rewrite of the node; None if the rule does not match."""
        node = flow.graph.nodes[index]
        names = self._match(node, flow)
        if names is None or not self._serves(flow, index):
            return None

        try:
            if not all(condition(names, flow.require_spec) for condition in self.when):
                return None
            steps, bound = program(self.lines, names, flow.require_spec)
        except (LookupError, TypeError, ValueError, ArithmeticError, GraphError):
            return None
        return Rewrite(index, steps, tuple(None if name is None else bound[name] for name in self.gives))

    def _match(self, node: Node, flow: DataFlow) -> dict[str, Any] | None:
        """Binds the pattern's variables to a call's arguments; None if it does not match."""
        if node.op != self.pattern.op or len(node.outputs) != len(self.gives):
            return None
        given, names = arguments(node), dict[str, Any]()
        wanted = _arguments_by_name(self.pattern)
        for parameter in signature(node.op).parameters:
            value = given[parameter.name]
            part = wanted.get(parameter.name, ConstantPattern(parameter.default))
            if isinstance(part, str):
                names[part] = value
            elif isinstance(part, list):
                if not isinstance(value, tuple) or len(value) != len(part):  # pyright: ignore[reportUnknownArgumentType] # a list of names
                    return None
                names.update(zip(part, value, strict=True))  # pyright: ignore[reportUnknownArgumentType] # a list of names
            elif not _same(value, part.value):
                return None
            if parameter.tensor and not isinstance(part, ConstantPattern) and not isinstance(value, Ref):
                return None
        return names if self._dtypes(names, flow) else None

    def _dtypes(self, names: Mapping[str, Any], flow: DataFlow) -> bool:
        dtypes: set[str] = set()
        for value in names.values():
            for item in value if isinstance(value, tuple) else (value,):  # pyright: ignore[reportUnknownVariableType] # any argument
                if isinstance(item, Ref):
                    spec = flow.spec(item)
                    if spec is None or spec.kind not in self.kinds:
                        return False
                    dtypes.add(spec.dtype)
        return self.mixed or len(dtypes) <= 1

    def _serves(self, flow: DataFlow, index: int) -> bool:
        first = flow.graph.first_value[index]
        return all(name is not None or flow.unread(first + slot) for slot, name in enumerate(self.gives))


def _arguments_by_name(pattern: CallPattern) -> dict[str, Any]:
    """Maps the schema's argument names to the parts of a pattern."""
    parameters = signature(pattern.op).parameters
    by_name = {p.name: part for p, part in zip(parameters, pattern.args, strict=False)}
    return by_name | dict(pattern.kwargs)


def _same(value: Any, wanted: Any) -> bool:
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def parse(row: Mapping[str, Any], where: str) -> EquivalentRule:
    """Parses a row of the table and checks it against the schemas. Raises `RuleError`."""
    check_keys(row, _KEYS, ("name", "from", "to", "samples"), where)
    where = f"{where} ({row['name']})"
    pattern = parse_pattern(row["from"], where)
    check_call(pattern.op, pattern.args, pattern.kwargs, where, complete=False)
    known = set(pattern.variables)
    when = tuple(parse_expression(text, known, where) for text in row.get("when", ()))
    lines = tuple(parse_line(text, known, where) for text in row["to"])
    if not lines:
        raise RuleError(f"{where}: 'to' is empty")
    for line in lines:
        check_call(line.op, line.args, line.kwargs, where)
    last = lines[-1]
    if not last.targets:
        last = Line(("_",), last.op, last.args, last.kwargs)
        known.add("_")
    check_slots(lines, where)
    gives = tuple(None if name == "" else name for name in row.get("gives", last.targets))
    for name in gives:
        if name is not None and name not in known - set(pattern.variables):
            raise RuleError(f"{where}: 'gives' names {name!r}, which no line makes")
    slots = signature(pattern.op).results
    if slots not in (-1, len(gives)):
        raise RuleError(f"{where}: {pattern.op} returns {slots} tensors, {len(gives)} are given")
    _check_samples(row["samples"], pattern, where)
    return EquivalentRule(
        row["name"], pattern, (*lines[:-1], last), gives, when, frozenset(row.get("kinds", ["float"])),
        bool(row.get("mixed", False)), tuple(row["samples"]), float(row.get("low", -2.0)), float(row.get("high", 2.0)),
    )  # fmt: skip


def _check_samples(samples: Sequence[Mapping[str, Any]], pattern: CallPattern, where: str) -> None:
    if len(samples) < 2:
        raise RuleError(f"{where}: two samples or more are wanted, so that the rule can be proven")
    for sample in samples:
        for name in sample:
            if name not in pattern.variables:
                raise RuleError(f"{where}: a sample gives {name!r}, which the pattern does not have")
