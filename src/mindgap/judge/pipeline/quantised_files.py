"""Decides about a quantised model file that gives other outputs than its translated graph: by its integers.

The file is run once more with the result of each `QuantizeLinear` as an output. Each is judged by itself, on the
integers that the platform gave before it (`mindgap.judge.quantised`, docs/quantised.md). ONNX's reference evaluator
runs the same file: where its integers are not right either, nothing is said of the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.aten.functional import Functional, functionalize
from mindgap.graph import Array, GraphError, MindgapError, materialise_all
from mindgap.graph.compare.culprit import DtypePolicy, Example, OperatorCulprit
from mindgap.graph.compare.metrics import distance
from mindgap.graph.compare.verdict import Fault
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.judge.quantised import QuantisedExamination, QuantisedValue, examine_quantised, quantised_values
from mindgap.models.own_path.runs import OwnRun
from mindgap.platforms.name import PlatformName, parse

#: Runs a model file on tensors: its outputs, and its integers by the name of their node. None for a file without any.
Probe = Callable[[PlatformName, Sequence[Array]], tuple[tuple[Array, ...], dict[str, Array]] | None]

#: Runs the same file, to check what is expected.
_REFEREE: Final = parse("onnx/reference")
_QUANTIZE: Final = " (QuantizeLinear)"
#: What stands between the operators of a quantised file.
_BETWEEN: Final = (_QUANTIZE, " (DequantizeLinear)")


@dataclass(frozen=True, slots=True)
class QuantisedFile:
    """What is known of a quantised file on a platform.

    decided: whether its integers decide. detail: a sentence. faults: the worst first; none where the format allows each
    integer.
    """

    decided: bool
    detail: str
    faults: tuple[Fault, ...] = ()


def quantised_file(comparison: GraphComparison, run: OwnRun, probe: Probe) -> QuantisedFile | None:
    """Returns what the integers of a model file on a platform say. None for a file without quantised values.

    `run`: what the file gave.
    """
    from mindgap.judge.oracle import OracleError

    try:
        functional = functionalize(comparison.graph)
    except GraphError:
        return None
    values = _by_name(functional, quantised_values(functional.graph))
    if not values or run.outputs is None:
        return None
    inputs = materialise_all(comparison.graph, comparison.context.tensors)
    given = [array for array, place in zip(inputs, comparison.graph.inputs, strict=True) if place.role == "input"]

    def examined(platform: PlatformName) -> tuple[tuple[Array, ...], list[QuantisedExamination]] | None:
        probed = probe(platform, given)
        if probed is None:
            return None
        outputs, integers = probed
        numbers = {values[name].number: array for name, array in integers.items() if name in values}
        return outputs, examine_quantised(functional.graph, inputs, numbers, outputs)

    try:
        found = examined(run.platform)
        if found is None:
            return None
        if distance(found[0], run.outputs) > 0:
            return QuantisedFile(False, "with its integers as further outputs the file gives other results")
        wrong = [each for each in found[1] if each.kind != "right"]
        if not wrong:
            count = len(values)
            return QuantisedFile(True, f"each of its {count} quantised values is one that ONNX's definition allows")
        against = examined(_REFEREE)
        if against is not None and (unfit := _unfit(against[1], wrong)):
            label = _label(functional, unfit.node)
            return QuantisedFile(False, f"ONNX's reference evaluator gives other integers than expected at {label}")
    except (MindgapError, OracleError) as error:
        return QuantisedFile(False, f"its integers were not judged: {str(error).partition(chr(10))[0]}")
    faults = _faults(functional, {value.number: value for value in values.values()}, wrong, run)
    return QuantisedFile(True, faults[0].detail, faults)


def _unfit(
    expected: Sequence[QuantisedExamination], wrong: Sequence[QuantisedExamination]
) -> QuantisedExamination | None:
    """The first value of which the reference evaluator gives something else than expected too."""
    numbers = {each.number for each in wrong}
    return next((each for each in expected if each.number in numbers and each.kind != "right"), None)


def _by_name(functional: Functional, values: Sequence[QuantisedValue]) -> dict[str, QuantisedValue]:
    """The values by the name of their `QuantizeLinear` node."""
    found: dict[str, QuantisedValue] = {}
    for value in values:
        label = _label(functional, value.node)
        if label.endswith(_QUANTIZE):
            found[label.removesuffix(_QUANTIZE)] = value
    return found


def _label(functional: Functional, node: int) -> str:
    labels = functional.graph.labels.nodes
    return labels[node] if labels and node >= 0 else ""


def _faults(
    functional: Functional, values: Mapping[int, QuantisedValue], wrong: Sequence[QuantisedExamination], run: OwnRun
) -> tuple[Fault, ...]:
    """One fault for each rule or operator that is wrong, then one for what float16 explains."""
    groups: dict[str, list[QuantisedExamination]] = {}
    few = [each for each in wrong if each.kind == "reduced_precision"]
    for each in wrong:
        if each.kind == "discrepant":
            op = functional.graph.nodes[_operator(functional, values, each)].op
            groups.setdefault(each.rule or op, []).append(each)
    faults = [_discrepant(functional, values, group, run) for group in groups.values()]
    return (*faults, _reduced(functional, values, few, run)) if few else tuple(faults)


def _operator(functional: Functional, values: Mapping[int, QuantisedValue], one: QuantisedExamination) -> int:
    """The node that the file computes between two quantised values; the rounding itself where there is none."""
    value = values.get(one.number)
    nodes = value.block if value is not None else ()
    between = [i for i in nodes if not _label(functional, i).endswith(_BETWEEN)]
    return between[-1] if between else one.node


def _discrepant(
    functional: Functional, values: Mapping[int, QuantisedValue], group: Sequence[QuantisedExamination], run: OwnRun
) -> Fault:
    first = group[0]
    nodes = [_operator(functional, values, each) for each in group]
    node = functional.origin[nodes[0]]
    culprit = OperatorCulprit((functional.graph.nodes[nodes[0]].op,), node, _label(functional, nodes[0]))
    return Fault(
        culprit, "discrepant", "platform", tuple(sorted({functional.origin[i] for i in nodes})),
        _words(functional, values, group, run), _example(functional, first),
    )  # fmt: skip


def _reduced(
    functional: Functional, values: Mapping[int, QuantisedValue], few: Sequence[QuantisedExamination], run: OwnRun
) -> Fault:
    nodes = {functional.origin[_operator(functional, values, each)] for each in few}
    worst = max(few, key=lambda each: each.beyond)
    detail = f"{_words(functional, values, few, run)}; rounding to float16 leads as far"
    accept = f"to accept it: --allow '{run.platform}: float32 in float16'"
    return Fault(
        DtypePolicy("float32", "float16"), "reduced_precision", "platform", tuple(sorted(nodes)), detail,
        _example(functional, worst), advice=f"measure what that costs with mindgap study task; {accept}",
    )  # fmt: skip


def _words(
    functional: Functional, values: Mapping[int, QuantisedValue], group: Sequence[QuantisedExamination], run: OwnRun
) -> str:
    """`model.onnx: 13 of 600 elements of conv (Conv) are other integers than ONNX allows, by up to 1 step (…)`."""
    first = max(group, key=lambda each: (each.farthest, each.beyond))
    label = _label(functional, _operator(functional, values, first))
    more = f", and of {len(group) - 1} more quantised values," if len(group) > 1 else ""
    if first.number not in values:
        return f"{run.words}: {first.count} of {first.elements} elements of {label} are off by up to {first.beyond:.3g}"
    steps = "1 step" if first.farthest == 1 else f"{first.farthest} steps"
    how = first.rule or f"{first.beyond:.3g} of a step further from the exact quotient than rounding to nearest leads"
    return (
        f"{run.words}: {first.count} of {first.elements} elements of {label}{more} are other integers than ONNX "
        f"allows, by up to {steps}: {how}"
    )


def _example(functional: Functional, one: QuantisedExamination) -> Example | None:
    if not one.position:
        return None
    given = f"element {list(one.position)} of {_label(functional, one.node)}"
    why = f"the exact quotient with the zero point is {one.exact:.9g}, so right is {one.right:g}"
    return Example(given, f"{one.got:g}", f"{one.right:g}", why=why if one.farthest else "")
