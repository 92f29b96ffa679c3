"""Reads `values.toml`: which values operators require of their operands, and which operators pass that on."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from mindgap.aten.operators import facts
from mindgap.graph import Arg, MindgapError, UnknownOperator

_NAME: Final = "values.toml"
#: Operators that PyTorch 2.14 has no longer.
_REMOVED: Final = frozenset({"cholesky"})
Dim = int | str | tuple[int, ...]


class _TomlTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _IndexRange(_TomlTable):
    of: str
    dim: Dim = "all"


class _Rule(_TomlTable):
    operators: tuple[str, ...]
    operand: str
    kinds: tuple[Literal["float", "complex", "int", "bool"], ...] = ()
    when: Mapping[str, bool | int | float | str] = {}
    range: tuple[float, float] | None = None
    index: _IndexRange | None = None
    distinct: _IndexRange | None = None
    offsets: _IndexRange | None = None
    form: Literal["sorted", "spd", "regular", "lower", "upper"] | None = None
    fan: tuple[int, ...] | None = None
    fan_rest: bool = False

    @model_validator(mode="after")
    def _one_demand(self) -> _Rule:
        demands = (self.range, self.index, self.distinct, self.offsets, self.form, self.fan, self.fan_rest or None)
        if sum(demand is not None for demand in demands) != 1:
            raise ValueError("give exactly one of range, index, distinct, offsets, form, fan, fan_rest")
        if self.range is not None and not self.range[0] <= self.range[1]:
            raise ValueError(f"range {list(self.range)} is no interval")
        return self


class _Carriers(_TomlTable):
    exact: tuple[str, ...]
    layout: tuple[str, ...]
    all_operands: tuple[str, ...]
    all_results: tuple[str, ...]


class _File(_TomlTable):
    carriers: _Carriers
    safe: tuple[str, ...]
    decides: Mapping[str, tuple[str, ...]]
    rule: tuple[_Rule, ...]


@dataclass(frozen=True, slots=True)
class ValueRule:
    """What an overload asks of one operand. `form`: see `constraints.ValueConstraint`; empty for a range or a `fan`.

    `of`, `dim`: the argument that sets how many places an index has to point at, and which of its sizes.
    `when`: arguments that must have these values. `kinds`: of the operand's dtype, any where empty.
    """

    operand: str
    kinds: tuple[str, ...]
    when: tuple[tuple[str, Arg], ...]
    form: str
    low: float
    high: float
    of: str
    dim: Dim
    fan: tuple[int, ...]
    fan_rest: bool


@dataclass(frozen=True)
class ValueRules:
    """The tables of `values.toml`, by packet or overload."""

    table: Mapping[str, tuple[ValueRule, ...]]
    exact: frozenset[str]
    layout: frozenset[str]
    all_operands: frozenset[str]
    all_results: frozenset[str]
    safe: frozenset[str]
    decides: Mapping[str, tuple[str, ...]]

    def of(self, op: str) -> tuple[ValueRule, ...]:
        """Returns the rules for an overload."""
        return self.table.get(op, ())


@cache
def value_rules() -> ValueRules:
    """Reads the built-in rules."""
    return read_rules(files("mindgap_campaign.synth.values").joinpath(_NAME).read_text(encoding="utf-8"))


def read_rules(text: str) -> ValueRules:
    """Parses rules in TOML.

    Raises `MindgapError` naming the key or the row: for what is no TOML, an unknown key, an operator that this
    PyTorch lacks, an operand or an argument that its schema lacks.
    """
    try:
        parsed = _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise MindgapError(f"{_NAME}: not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key_path = ".".join(str(part) for part in first["loc"])
        raise MindgapError(f"{_NAME}: {key_path or 'file'}: {first['msg'].removeprefix('Value error, ')}") from None
    table: dict[str, list[ValueRule]] = {}
    for number, row in enumerate(parsed.rule):
        for name in row.operators:
            for op in _overloads(name, number):
                _check(op, name, number, row)
                if _takes(op, row):
                    table.setdefault(op, []).append(_rule(row))
    _check_tables(parsed)
    carriers = parsed.carriers
    return ValueRules(
        {op: tuple(rules) for op, rules in table.items()},
        frozenset(carriers.exact),
        frozenset(carriers.layout),
        frozenset(carriers.all_operands),
        frozenset(carriers.all_results),
        frozenset(parsed.safe),
        dict(parsed.decides),
    )


def _check_tables(found: _File) -> None:
    """Raises for an unknown operator or operand in any table except the rules."""
    for key, names in (*found.carriers, ("safe", found.safe), ("decides", tuple(found.decides))):
        for name in names:
            if not hasattr(torch.ops.aten, name):
                raise MindgapError(f"{_NAME}: {key}: torch {torch.__version__} has no operator aten.{name}")
    for packet, operands in found.decides.items():
        known = {argument for op in _overloads(packet, None) for argument in facts(op).arguments}
        for operand in operands:
            if operand not in known:
                raise MindgapError(f"{_NAME}: decides.{packet}: it has no operand {operand!r}")


def _overloads(name: str, number: int | None) -> list[str]:
    """Returns the overloads of a name: `embedding` -> all of the packet; `embedding.default` -> that one. None of an
    operator that PyTorch has removed."""
    packet, _, variant = name.partition(".")
    where = f"{_NAME}: rule {number}" if number is not None else _NAME
    try:
        overloads = list(getattr(torch.ops.aten, packet).overloads())
    except (AttributeError, RuntimeError):
        if packet in _REMOVED:
            return []
        raise MindgapError(f"{where}: torch {torch.__version__} has no operator aten.{packet}") from None
    if not variant:
        return [f"aten.{packet}.{each}" for each in overloads]
    if variant not in overloads:
        raise MindgapError(f"{where}: aten.{packet} has no overload {variant!r} ({', '.join(overloads)})")
    return [f"aten.{packet}.{variant}"]


def _check(op: str, name: str, number: int, row: _Rule) -> None:
    """Raises if no overload of the row has its operand and arguments."""
    wanted = [row.operand, *row.when]
    for index_range in (row.index, row.distinct, row.offsets):
        if index_range is not None:
            wanted.append(index_range.of)
            wanted += (
                [index_range.dim] if isinstance(index_range.dim, str) and index_range.dim not in ("all", "each") else []
            )
    overloads = [set(_arguments(each)) for each in _overloads(name, number)]
    for argument in wanted:
        if not any(argument in arguments for arguments in overloads):
            raise MindgapError(f"{_NAME}: rule {number}: {name} has no argument {argument!r}")


def _arguments(op: str) -> tuple[str, ...]:
    try:
        return facts(op).arguments
    except UnknownOperator:
        return ()


def _takes(op: str, row: _Rule) -> bool:
    arguments = _arguments(op)
    return row.operand in arguments and all(name in arguments for name in row.when)


def _rule(row: _Rule) -> ValueRule:
    form: str = row.form or ""
    index_range: _IndexRange | None = None
    for word, given in (("index", row.index), ("distinct", row.distinct), ("offsets", row.offsets)):
        if given is not None:
            form, index_range = word, given
    low, high = row.range if row.range is not None else (-float("inf"), float("inf"))
    when: tuple[tuple[str, Any], ...] = tuple(row.when.items())
    return ValueRule(
        row.operand,
        row.kinds,
        when,
        form,
        low,
        high,
        index_range.of if index_range else "",
        index_range.dim if index_range else "all",
        row.fan or (),
        row.fan_rest,
    )
