"""Reads and checks all rule tables once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from mindgap.aten.operators import facts
from mindgap.graph import UnknownOperator
from mindgap_campaign.synth.mutation.rules import alike, attributes, equivalent, identities
from mindgap_campaign.synth.mutation.rules.alike import OperatorGroup
from mindgap_campaign.synth.mutation.rules.attributes import AttributeRule
from mindgap_campaign.synth.mutation.rules.equivalent import EquivalentRule
from mindgap_campaign.synth.mutation.rules.identities import IdentityRule
from mindgap_campaign.synth.mutation.rules.language import RuleError
from mindgap_campaign.synth.mutation.schemas import signature

FOLDER: Final = Path(__file__).parent
_LISTS: Final = (
    "no_empty", "layout_bound", "relays", "deriving", "parting", "reshapes", "shape_free", "sign_blind",
)  # fmt: skip


@dataclass(frozen=True)
class Rules:
    """What the tables say, by operator.

    `alike`: groups that a call may leave. `equivalent`, `attributes`: rows for it. `insertions`: unary operators by
    kind of dtype. `indices`: arguments that take indices of 32 or 64 bits.
    `no_empty`: an empty dimension kills the process. `deriving`: they make one size of another, `parting` into pieces.
    `reshapes`: the same elements in another shape. `shapes`: the argument that is the shape of the result.
    `layout_bound`: they ask for strides of a certain form; `relays`: their results do not take after their operands'
    strides. `shape_free`: any shape in, the same shape out.
    `sign_blind`: -0 and 0 give the same. `rows`: operators that compute each row of the first dimension by itself, and
    which of their tensors have rows: `pointwise` (any), `first`, `second`, `all`. `identities`: programs that give back
    what they are given.
    """

    alike: Mapping[str, tuple[OperatorGroup, ...]]
    equivalent: Mapping[str, tuple[EquivalentRule, ...]]
    attributes: Mapping[str, tuple[AttributeRule, ...]]
    insertions: Mapping[str, tuple[str, ...]]
    indices: Mapping[str, tuple[str, ...]]
    shapes: Mapping[str, tuple[str, ...]]
    no_empty: frozenset[str]
    layout_bound: frozenset[str]
    relays: frozenset[str]
    deriving: frozenset[str]
    parting: frozenset[str]
    reshapes: frozenset[str]
    shape_free: frozenset[str]
    sign_blind: frozenset[str]
    rows: Mapping[str, str]
    identities: tuple[IdentityRule, ...]


@cache
def load() -> Rules:
    """Reads the built-in tables."""
    return read(FOLDER)


def read(folder: Path) -> Rules:
    """Reads the tables of a directory. Raises `RuleError`, with file and row, for invalid ones."""
    groups = [alike.parse(row, where) for row, where in _rows(folder / "alike.toml", "group")]
    rewrites = [equivalent.parse(row, where) for row, where in _rows(folder / "equivalent.toml", "rule")]
    same = [identities.parse(row, where) for row, where in _rows(folder / "identities.toml", "identity")]
    _check_distinct([i.name for i in same], folder / "identities.toml")
    _check_distinct([g.name for g in groups], folder / "alike.toml")
    _check_distinct([r.name for r in rewrites], folder / "equivalent.toml")
    rules = [
        rule for row, where in _rows(folder / "attributes.toml", "attribute") for rule in attributes.parse(row, where)
    ]
    operators = _table(folder / "operators.toml")
    for key in operators:
        if key not in ("insert", "index", "shape", "rows", *_LISTS):
            raise RuleError(f"{folder / 'operators.toml'}: unknown key {key!r}")
    where = str(folder / "operators.toml")
    insertions = {kind: _operators(names, f"{where}, insert.{kind}") for kind, names in operators["insert"].items()}
    lists = {name: frozenset(_operators(operators[name], f"{where}, {name}")) for name in _LISTS}
    return Rules(
        _grouped([(op, group) for group in groups for op in sorted(group.sources)]),
        _grouped([(rule.pattern.op, rule) for rule in rewrites]),
        _grouped([(rule.op, rule) for rule in rules]),
        insertions,
        _arguments(operators["index"], f"{where}, index"),
        _arguments(operators["shape"], f"{where}, shape"),
        rows=_rows_of(operators["rows"], where),
        identities=tuple(same),
        **lists,
    )


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RuleError(f"{path} cannot be read: {error}") from None


def _rows(path: Path, key: str) -> list[tuple[dict[str, Any], str]]:
    """Yields the rows of a table with their positions, counted from 1."""
    table = _table(path)
    if set(table) != {key}:
        raise RuleError(f"{path} should hold [[{key}]] and nothing else, not {', '.join(table) or 'nothing'}")
    return [(row, f"{path}, {key} {number}") for number, row in enumerate(table[key], start=1)]


def _operators(names: Sequence[str], where: str) -> tuple[str, ...]:
    for name in names:
        try:
            facts(name)
        except UnknownOperator:
            raise RuleError(f"{where}: there is no operator {name!r}") from None
    return tuple(names)


def _arguments(rows: Mapping[str, Sequence[str]], where: str) -> dict[str, tuple[str, ...]]:
    _operators(tuple(rows), where)
    for op, names in rows.items():
        for name in names:
            if name not in signature(op).named:
                raise RuleError(f"{where}: {op} has no argument {name!r}")
    return {op: tuple(names) for op, names in rows.items()}


def _rows_of(table: Mapping[str, Sequence[str]], where: str) -> dict[str, str]:
    for role in table:
        if role not in ("pointwise", "first", "second", "all"):
            raise RuleError(f"{where}, rows: {role!r} is none of pointwise, first, second, all")
    return {op: role for role, names in table.items() for op in _operators(names, f"{where}, rows.{role}")}


def _grouped(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    rules: dict[str, tuple[Any, ...]] = {}
    for op, rule in pairs:
        rules[op] = (*rules.get(op, ()), rule)
    return rules


def _check_distinct(names: Sequence[str], path: Path) -> None:
    for name in names:
        if names.count(name) > 1:
            raise RuleError(f"{path}: two rows are called {name!r}")
