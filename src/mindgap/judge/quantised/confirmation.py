"""Asks what follows a wrong quantised value whether the platform computed with it.

Some compilers give integers another encoding where they are an output of the model, and only there. Integers that are
an output for the examination alone are therefore held against what the platform computed from them: what follows is
right for the integers that were seen, or for the right ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Array, Graph, Labels, operands
from mindgap.judge.oracle import Oracle
from mindgap.judge.quantised.examination import QuantisedExamination, examine_quantised
from mindgap.judge.quantised.values import nodes_back_to
from mindgap.platforms.model_formats import DEFINED, QuantisationRule

#: Of integers that nothing confirms.
UNCONFIRMED: Final = (
    "what follows does not tell whether the platform computed with the integers that it gives as an output"
)
#: Of integers that what follows contradicts.
OTHER_AS_OUTPUT: Final = (
    "what follows is right for the right integers, not for those that the platform gives where they are an output"
)
#: Of what is computed from such integers.
AFTER: Final = "it is computed from integers that the platform gives otherwise where they are an output"


def sources(graph: Graph, number: int, known: frozenset[int]) -> frozenset[int]:
    """Returns which of the `known` values a value is computed from, without another known one between."""
    index = graph.producer[number]
    return nodes_back_to(graph, operands(graph.nodes[index]), known)[1] if index >= 0 else frozenset()


def confirmed(
    graph: Graph, inputs: Sequence[Array], integers: Mapping[int, Array], outputs: Sequence[Array], narrow: bool,
    examined: Sequence[QuantisedExamination], rule: QuantisationRule = DEFINED,
) -> list[QuantisedExamination]:  # fmt: skip
    """Returns the examinations, `undecided` where a wrong value may be wrong as an output only.

    The arguments are those of `examine_quantised`, and what it found. What follows is examined on the right integers
    too. Where it is nearer to those than to the integers that were seen, the platform did not compute with these. Where
    it is as near, that is undecided; a value of reduced precision stays one, since another encoding is further off. A
    value that the model itself returns is what its users get.
    """
    known = frozenset(integers)
    shown = known.difference(graph.outputs)
    findings = ("reduced_precision", "discrepant")
    wrong = {each.number: each for each in examined if each.kind in findings and each.number in shown}
    if not wrong:
        return list(examined)
    right = _right(graph, inputs, integers, wrong)
    by_number = {each.number: each for each in examined}
    on_right = {
        each.number: each
        for each in examine_quantised(graph, inputs, integers, outputs, narrow, imposed=right, rule=rule)
    }  # fmt: skip
    read = {number: sources(graph, number, known) for number in by_number}
    doubted: dict[int, QuantisedExamination] = {}
    for number, each in wrong.items():
        following = [other for other, numbers in read.items() if number in numbers]
        seen, otherwise = (_wrong([each[other] for other in following]) for each in (by_number, on_right))
        if seen < otherwise or (seen == otherwise and each.kind == "reduced_precision"):
            continue
        doubted[number] = replace(each, kind="undecided", why=OTHER_AS_OUTPUT if seen > otherwise else UNCONFIRMED)
    after = {
        number: _after_wrong(one, on_right[number], [each in doubted for each in read[number] if each in wrong])
        for number, one in (by_number | doubted).items()
    }  # fmt: skip
    return [after[each.number] for each in examined]


def _wrong(following: Sequence[QuantisedExamination]) -> tuple[int, float, int]:
    """How wrong values are: steps, how far beyond, and elements; 0 for those that follow a known rule."""
    plain = [each for each in following if not each.rule]
    return sum(each.farthest for each in plain), sum(each.beyond for each in plain), sum(each.count for each in plain)


def _after_wrong(
    one: QuantisedExamination, on_right: QuantisedExamination, doubts: Sequence[bool]
) -> QuantisedExamination:
    """What is found of a value. `on_right`: on the right integers. `doubts`: for each wrong value that it is computed
    from, whether that is undecided."""
    if one.kind in ("right", "undecided") or one.form or not any(doubts):
        return one
    # The platform's own integers may be a step from the right ones, as ONNX allows, and lead elsewhere.
    return on_right if on_right.kind == "right" and all(doubts) else replace(one, kind="undecided", why=AFTER)


def _right(
    graph: Graph, inputs: Sequence[Array], integers: Mapping[int, Array], wrong: Mapping[int, QuantisedExamination]
) -> dict[int, Array]:
    """Integers of wrong values as they should be: each computed from right ones, and from the platform's where they
    are right."""
    given = {number: to_torch(array) for number, array in integers.items() if number not in wrong}
    oracle = Oracle(replace(graph, outputs=tuple(wrong), labels=Labels()), inputs, decisions=given)
    return {number: to_numpy(oracle.step.values[number]) for number in wrong}
