"""Checks that the calls of each script's own cases meet the predicate by which the condition of its cause is counted.

    python tools/findings/case_calls.py docs/findings [SCRIPT…]

Runs the cases in eager mode and sees every call of an operator, whole and in parts, as the counted tables have them. A
predicate that no call of a case meets is wrong, or is of another condition. Exit status 1 where there is one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from facts import Facts, read_facts
from operator_use import Call, Seen, defaults, seen_calls

from mindgap.findings.causes.call_predicate import OperatorCall, call_predicate
from mindgap.findings.causes.packets import function_of
from mindgap.findings.script.form import case_part


def calls_of(run: Callable[[], Any]) -> set[Call]:
    """The calls of operators that a function makes in eager mode, whole and in parts."""
    seen = Seen()
    with torch.no_grad(), seen_calls(seen):
        run()
    return seen.calls


def meets(facts: Facts, calls: set[Call]) -> bool:
    """Whether one of the calls is of a counted function and meets the predicate."""
    wanted = {function_of(name).removesuffix("_backward") for name in facts.uses.functions}
    return any(map(call_predicate(facts.uses.where), _of(calls, wanted)))


def unmet(facts: Facts, script: str) -> list[str]:
    """The cases of a script that make no call which meets the predicate."""
    names: dict[str, Any] = {"torch": torch}
    exec("from math import inf, nan", names)
    exec(case_part(script), names)
    cases: list[str] = []
    for name, (model, fresh) in names["CASES"].items():
        module, operands = model().eval(), fresh()
        if not meets(facts, calls_of(partial(module, *operands))):
            cases.append(name)
    return cases


def _of(calls: set[Call], wanted: set[str]) -> Iterator[OperatorCall]:
    for op, args, names, *rest in calls:
        if op.startswith("aten.") and function_of(op) in wanted:
            given = {key: value for key, value in {**defaults(op), **dict(args)}.items() if key not in names}
            yield OperatorCall(op, *json.loads(json.dumps([given, names, *rest])))  # lists, as in the tables


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("scripts", nargs="*")
    asked = parser.parse_args()
    wrong = 0
    for script, facts in read_facts(asked.directory).items():
        if facts.uses.functions and (not asked.scripts or script in asked.scripts):
            cases = unmet(facts, (asked.directory / script).read_text(encoding="utf-8"))
            wrong += bool(cases)
            if cases:
                print(f"{script}: {', '.join(cases)}: {facts.uses}")
    print(f"{wrong} predicates are not met by a case of their own script")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
