"""Compares the schemas that operators have in two versions of PyTorch.

A graph names the arguments that were given. An argument that it leaves out takes the default of the version that runs
it, so that a default that has changed changes the program.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms.environments import EnvironmentProblem, find

_MODULE: Final = "mindgap.aten.schemas"
_TIMEOUT_S: Final = 300.0
#: A call of an operator: how many arguments are given by position, and the names of the others.
Call = tuple[int, frozenset[str]]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """An operator whose schema differs. `before`, `after`: the schemas, empty where a version lacks the operator.

    `changes`: one sentence for each argument. `defaults`: one of them is a default that a graph leaves out, so that the
    two versions run different programs. `models`: those whose graphs call it.
    """

    op: str
    before: str
    after: str
    changes: tuple[str, ...]
    defaults: bool
    models: tuple[str, ...]


def calls_of(graph: Graph) -> dict[str, frozenset[Call]]:
    """The ways in which a graph calls each of its operators."""
    by_operator: dict[str, set[Call]] = {}
    for node in graph.nodes:
        by_operator.setdefault(node.op, set()).add((len(node.args), frozenset(name for name, _ in node.kwargs)))
    return {op: frozenset(calls) for op, calls in by_operator.items()}


def schema_changes(
    calls: Mapping[str, Mapping[str, frozenset[Call]]], before: str | None, after: str | None
) -> tuple[SchemaChange, ...]:
    """The operators whose schemas differ, those with a changed default that is left out first.

    `calls`: of each model. `before`, `after`: environments, None for mindgap's own. Raises `EnvironmentProblem` where
    one of them does not answer.
    """
    models: dict[str, list[str]] = {}
    ways: dict[str, set[Call]] = {}
    for model, operators in calls.items():
        for op, how in operators.items():
            models.setdefault(op, []).append(model)
            ways.setdefault(op, set()).update(how)
    if not models:
        return ()
    old, new = (_schemas(sorted(models), each) for each in (before, after))
    changes = [
        _compared(op, old.get(op), new.get(op), ways[op], tuple(models[op]))
        for op in sorted(models)
        if old.get(op, {}).get("schema") != new.get(op, {}).get("schema")
    ]
    return tuple(sorted(changes, key=lambda each: not each.defaults))


def _compared(
    op: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, calls: set[Call], models: tuple[str, ...]
) -> SchemaChange:
    if old is None or new is None:
        change = "the new version has no such operator" if new is None else "the old version has no such operator"
        texts = ["" if side is None else str(side["schema"]) for side in (old, new)]
        return SchemaChange(op, texts[0], texts[1], (change,), False, models)
    changes: list[str] = []
    defaults = False
    were = {name: default for name, default, *_ in old["arguments"]}
    are = {name: default for name, default, *_ in new["arguments"]}
    renamed = _renamed(old["arguments"], new["arguments"])
    changes += [f"{name} is now called {renamed[name]}" for name in renamed]
    were = {renamed.get(name, name): default for name, default in were.items()}
    calls = {(given, frozenset(renamed.get(name, name) for name in named)) for given, named in calls}
    for position, (name, default, by_name, _) in enumerate(new["arguments"]):
        if name not in were:
            changes.append(f"{name} is new" + (f", {default} by default" if default is not None else ""))
        elif were[name] != default:
            left_out = any(name not in named and (by_name or position >= given) for given, named in calls)
            defaults |= left_out
            changed = f"the default of {name} is {default}, was {were[name]}"
            changes.append(changed + (": the graphs leave it out" if left_out else ", and no graph leaves it out"))
    changes += [f"{name} is gone" for name in were if name not in are]
    return SchemaChange(
        op, old["schema"], new["schema"], tuple(changes) or ("the types of arguments or results differ",), defaults,
        models,
    )  # fmt: skip


def _renamed(old: Sequence[Sequence[Any]], new: Sequence[Sequence[Any]]) -> dict[str, str]:
    """The arguments that stand where they stood, with their type, under another name, where none was added or removed:
    old name -> new name."""
    if len(old) != len(new):
        return {}
    known = {name for name, *_ in old} & {name for name, *_ in new}
    pairs = [
        (a, b)
        for (a, _, only, a_type), (b, _, too, b_type) in zip(old, new, strict=True)
        if a != b and only == too and a_type == b_type
    ]
    return {a: b for a, b in pairs if a not in known and b not in known}


def _schemas(overloads: list[str], environment: str | None) -> dict[str, dict[str, Any]]:
    """The schemas of an environment's PyTorch. Raises `EnvironmentProblem`."""
    command = [sys.executable, "-m", _MODULE] if environment is None else find(environment).command(_MODULE)
    try:
        done = subprocess.run(
            command, input=json.dumps(overloads), capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"environment {environment}: its operators cannot be asked for: {error}") from error
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        raise EnvironmentProblem(f"environment {environment}: its operators cannot be asked for: {last}") from None
