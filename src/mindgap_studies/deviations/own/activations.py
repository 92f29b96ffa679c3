"""Deviating values and remaining precision before and after activations (Tables SUP-8 and SUP-9)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any, Final

from mindgap_studies.deviations.own.columns import classes_and_precision
from mindgap_studies.deviations.own.layers import kind_of_layer
from mindgap_studies.machines.merging import MergedMachines, SubjectColumn
from mindgap_studies.machines.observations import ValueFacts
from mindgap_surveys.table import StudyTable, made

_VARIANT: Final = ("model", "activation", "pooling", "trained")


def table_sup8(merged: MergedMachines) -> StudyTable:
    """Makes Table SUP-8: the share of elements that deviate before and after each activation, mean over samples.

    Whole values exist while a machine collects only, so that the share is over the platforms of one machine.
    """
    shares = {
        (machine, each.subject, each.value): each.deviating / each.elements
        for machine, found in merged.deviating.items()
        for each in found
    }
    groups: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for column in merged.of("models"):
        name = column.subject.name
        for place, (before, after) in enumerate(activations(column), 1):
            for machine in merged.machines:
                keys = (machine, name, before), (machine, name, after.number)
                if all(key in shares for key in keys):
                    group = (machine, *_variant(column), place, after.where, _platforms(column, machine))
                    groups.setdefault(group, []).append((shares[keys[0]], shares[keys[1]]))
    rows = ((*group, len(pairs), *map(fmean, zip(*pairs, strict=True))) for group, pairs in groups.items())
    columns = ("machine", *_VARIANT, "activation_number", "module", "platforms", "samples", "before", "after")
    note = (
        "Shares of 1. An element deviates if it is not the same on all float32 platforms of the machine that show the "
        "values around every activation; platforms: how many these are. Models whose values around activations take "
        "more than 256 MiB are left out."
    )
    return made("own_table_sup8", "Table SUP-8: deviations before and after activations", columns, rows, note)


def table_sup9(merged: MergedMachines) -> StudyTable:
    groups: dict[tuple[Any, ...], list[tuple[int, int, int]]] = {}
    for column in merged.of("models"):
        changes = [change for before, after in activations(column) if (change := _change(column, before, after))]
        if changes:
            counts = changes.count("increase"), changes.count("unaffected"), changes.count("decrease")
            groups.setdefault(_variant(column), []).append(counts)
    rows = ((*group, len(counts), *map(fmean, zip(*counts, strict=True))) for group, counts in groups.items())
    columns = (*_VARIANT, "samples", "increase", "unaffected", "decrease")
    note = (
        "Numbers of activations. The remaining precision of the values before and after each is compared, over the "
        "platforms that show both; an activation that fewer than two show is left out."
    )
    return made("own_table_sup9", "Table SUP-9: activations and remaining precision", columns, rows, note)


def activations(column: SubjectColumn) -> Iterator[tuple[int, ValueFacts]]:
    """Yields the number of the operand and the result of each activation whose operand is kept."""
    for value in column.subject.values:
        if kind_of_layer(value.op) == "activation":
            for number in value.operands:
                if number in column.prefixes:
                    yield number, value


def _change(column: SubjectColumn, before: int, after: ValueFacts) -> str:
    """Returns what an activation does to the remaining precision; empty if fewer than two platforms show it."""
    pairs = zip(column.prefixes[before], column.prefixes[after.number], strict=True)
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(both) < 2:
        return ""
    was, now = (classes_and_precision(side)[1] for side in zip(*both, strict=True))
    return "increase" if now > was else "decrease" if now < was else "unaffected"


def _platforms(column: SubjectColumn, machine: str) -> int:
    """Returns how many platforms of a machine show all values around activations."""
    numbers = {n for before, after in activations(column) for n in (before, after.number)}
    return sum(
        where.machine == machine and all(column.prefixes[n][place] is not None for n in numbers)
        for place, where in enumerate(column.platforms)
    )


def _variant(column: SubjectColumn) -> tuple[Any, ...]:
    return tuple(column.subject.facts.get(name) for name in _VARIANT)
