"""Counts in how many captured models calls of operators occur, all of a function or those that meet a condition.

The table `operator_calls.txt.gz` holds the distinct calls of 2,252 inference graphs of GraphNet, each with the models
that make it, so that any condition can be counted without these graphs. `tools/findings/operator_use.py` makes it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from mindgap.findings.causes.call_predicate import OperatorCall, call_predicate
from mindgap.findings.causes.packets import function_of
from mindgap.graph import MindgapError

TABLE: Final = Path(__file__).with_name("operator_calls.txt.gz")
_VERSION: Final = 1
#: Of a call only so many tensors, and of a list of numbers only so many, are kept.
MOST_OPERANDS: Final = 16


#: Of a call: arguments, names of tensors, their dtypes and shapes; and the number of a set of models.
_Row = tuple[dict[str, Any], list[str], list[str], list[list[int]], int]


@dataclass(frozen=True, slots=True)
class CountedCall:
    """A distinct call. `models`: numbers of the models that make it, as the bits of one integer."""

    call: OperatorCall
    models: int


@dataclass(frozen=True, slots=True)
class CallTable:
    """The distinct calls of captured models.

    `models`: how many were counted. `unfinished`: in how many of them some calls could not be replayed.
    `overloads`: those that occur, by function. `arguments`: the defaults of each overload's arguments.
    `rows`: of each overload its calls, as JSON that is read when they are needed. `sets`: the sets of models that
    rows refer to, each as steps from one number to the next.
    """

    models: int
    unfinished: int
    overloads: Mapping[str, tuple[str, ...]]
    arguments: Mapping[str, Mapping[str, Any]]
    rows: Mapping[str, str]
    sets: Sequence[Sequence[int]]
    _read: dict[str, tuple[CountedCall, ...]] = field(
        default_factory=dict[str, tuple[CountedCall, ...]], init=False, repr=False, compare=False
    )

    def calls(self, function: str) -> tuple[CountedCall, ...]:
        """The calls of all overloads of a function. Calls that one function makes through another are there too."""
        if function not in self._read:
            self._read[function] = tuple(self._calls(function))
        return self._read[function]

    def _calls(self, function: str) -> Iterator[CountedCall]:
        for op in self.overloads.get(function, ()):
            defaults = self.arguments[op]
            rows: list[_Row] = json.loads(self.rows[op])
            for given, names, dtypes, shapes, number in rows:
                args = {name: value for name, value in {**defaults, **given}.items() if name not in names}
                models = sum(1 << model for model in accumulate(self.sets[number]))
                yield CountedCall(OperatorCall(op, args, tuple(names), tuple(dtypes), tuple(shapes)), models)

    def models_meeting(self, functions: Iterable[str], where: str = "") -> int:
        """How many models make at least one call of one of the functions that meets the condition.

        `functions`: names of functions or overloads. Raises `MindgapError` for a wrong condition, and for an argument
        that none of the functions has.
        """
        predicate = call_predicate(where)
        wanted = sorted({_counted_as(name) for name in functions})
        known = {name for function in wanted for op in self.overloads.get(function, ()) for name in self.arguments[op]}
        if known and all(map(self.overloads.get, wanted)) and not predicate.arguments <= known:
            missing = ", ".join(sorted(predicate.arguments - known))
            raise MindgapError(f"condition {where!r}: {', '.join(wanted)} has no argument {missing}")
        met = 0
        for function in wanted:
            for counted in self.calls(function):
                if counted.models & ~met and predicate(counted.call):
                    met |= counted.models
        return met.bit_count()


def models_using(op: str) -> int:
    """How many of the counted models call the function of an overload; for a gradient, the function that it is of."""
    return _uses(_counted_as(op))


def models_meeting(functions: Iterable[str], where: str = "") -> int:
    """How many of the counted models make a call of one of these functions that meets a condition (`CallTable`)."""
    return call_table().models_meeting(functions, where)


def counted_models() -> int:
    """How many models were counted."""
    return call_table().models


@cache
def call_table() -> CallTable:
    """The table that comes with mindgap."""
    return read_table(TABLE.read_bytes())


@cache
def _uses(function: str) -> int:
    return call_table().models_meeting([function])


def _counted_as(op: str) -> str:
    return function_of(op).removesuffix("_backward")


def read_table(content: bytes) -> CallTable:
    """The table in the bytes that `table_bytes` gives. Raises `MindgapError` for another version."""
    header, sets, *lines = gzip.decompress(content).decode().splitlines()
    data: dict[str, Any] = json.loads(header)
    if data.get("version") != _VERSION:
        raise MindgapError("the table of operator calls has another version: run tools/findings/operator_use.py again")
    rows = {op: text for op, _, text in (line.partition(" ") for line in lines)}
    overloads: dict[str, list[str]] = {}
    for op in rows:
        overloads.setdefault(function_of(op), []).append(op)
    by_function = {function: tuple(overloads_of) for function, overloads_of in overloads.items()}
    return CallTable(data["models"], data["unfinished"], by_function, data["arguments"], rows, json.loads(sets))


def table_bytes(
    calls: Mapping[int, Iterable[OperatorCall]], arguments: Mapping[str, Mapping[str, Any]], unfinished: int = 0
) -> bytes:
    """A table as compressed text, the same for the same calls. `calls`: of each model, by its number from 0.

    `arguments`: the defaults of each overload's arguments; an argument without a default is there with None. The text
    has a line of JSON with versions and arguments, one with the sets of models, and one for each overload.
    """
    models: dict[str, dict[str, set[int]]] = {}
    for number, made in calls.items():
        for call in made:
            models.setdefault(call.op, {}).setdefault(_json(_stored(call)), set()).add(number)
    sets: dict[tuple[int, ...], int] = {}
    lines: list[str] = []
    for op, rows in sorted(models.items()):
        numbered: list[list[Any]] = []
        for row, numbers in sorted(rows.items()):
            ordered = sorted(numbers)
            steps = tuple(b - a for a, b in zip([0, *ordered], ordered, strict=False))
            numbered.append([*json.loads(row), sets.setdefault(steps, len(sets))])
        lines.append(f"{op} {_json(numbered)}")
    defaults = {op: dict(arguments[op]) for op in sorted(models)}
    header = {"version": _VERSION, "models": len(calls), "unfinished": unfinished, "arguments": defaults}
    return gzip.compress("\n".join([_json(header), _json(list(sets)), *lines]).encode(), mtime=0)


def _json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def _stored(call: OperatorCall) -> list[Any]:
    most = MOST_OPERANDS
    args = {name: _cut(call.args[name]) for name in sorted(call.args)}
    return [args, call.tensors[:most], call.dtypes[:most], [shape and list(shape) for shape in call.shapes[:most]]]


def _cut(value: Any) -> Any:
    """An argument, with at most `MOST_OPERANDS` members of a list."""
    return list(value)[:MOST_OPERANDS] if isinstance(value, (list, tuple)) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # any JSON
