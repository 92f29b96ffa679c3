"""Counts how many zoo models and everyday programs meet the condition of each listed cause.

Zoo models are the 2,252 forwards of `operator_calls.txt.gz`; everyday programs are those of tests/everyday, whose calls
`everyday_calls.py` writes to `everyday_calls.txt.gz`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from facts import Facts

from mindgap.findings.causes.call_predicate import call_predicate
from mindgap.findings.causes.operator_calls import CallTable, call_table, read_table
from mindgap.findings.causes.packets import function_of

TABLE: Final = Path(__file__).with_name("everyday_calls.txt.gz")


@cache
def everyday_table() -> CallTable:
    return read_table(TABLE.read_bytes())


def met(table: CallTable, functions: tuple[str, ...], where: str = "") -> int:
    """How many models or programs of a table make a call of one of the functions that meets the condition.

    An everyday table has few calls: none of them may have an argument that the condition names.
    """
    predicate, found = call_predicate(where), 0
    for function in {function_of(name).removesuffix("_backward") for name in functions}:
        for counted in table.calls(function):
            if counted.models & ~found and predicate(counted.call):
                found |= counted.models
    return found.bit_count()


def counts_of(facts: Mapping[str, Facts]) -> dict[str, Any]:
    """The content of `counts.json`: the totals, and of each cause the fields of `listing.Counts`."""
    zoo, everyday = call_table(), everyday_table()
    causes: dict[str, dict[str, Any]] = {}
    for script, each in sorted(facts.items()):
        functions, where = each.uses.functions, each.uses.where
        causes[script] = {} if not functions else {
            "zoo": met(zoo, functions, where), "everyday": met(everyday, functions, where),
            "zoo_calls": met(zoo, functions), "everyday_calls": met(everyday, functions), "bound": each.values_only,
            "where": where,
        }  # fmt: skip
    return {"totals": {"zoo": zoo.models, "everyday": everyday.models}, "causes": causes}
