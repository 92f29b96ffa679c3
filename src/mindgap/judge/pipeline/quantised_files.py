"""Decides about a quantised model file that gives other outputs than its translated graph: by its integers.

The file is run once more with each quantised result as an output. Each is judged by itself, on the integers that the
platform gave before it (`mindgap.judge.quantised`, docs/quantised.md), and what follows has to confirm it. Other
implementations of the format run the same file: where none of them gives the integers that are expected of a value,
the platform is not judged there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Final

from mindgap.aten.functional import Functional, functionalize
from mindgap.aten.operators import packet_of
from mindgap.graph import Array, Graph, GraphError, MindgapError, materialise_all
from mindgap.graph.compare.culprit import DtypePolicy, Example, OperatorCulprit
from mindgap.graph.compare.metrics import distance
from mindgap.graph.compare.verdict import Fault
from mindgap.graph.operators import traits
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.judge.pipeline.model_files import is_narrow, is_quantised
from mindgap.judge.quantised import (
    QuantisedExamination,
    QuantisedValue,
    confirmed,
    examine_quantised,
    quantised_values,
    shown_parts,
    sources,
)
from mindgap.judge.trace.subgraphs import values_after
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.model_formats import ModelFormat, QuantisationRule, formats
from mindgap.platforms.name import PlatformName
from mindgap.sources.translated_model import result_key

#: Runs a model file on tensors: its outputs, and its integers by the name of their node. None for a file without any.
Probe = Callable[[PlatformName, Sequence[Array]], tuple[tuple[Array, ...], dict[str, Array]] | None]


#: What was found of a value that a platform computes in another way than the format allows.
_WRONG: Final = ("reduced_precision", "discrepant")
_NOT_JUDGED: Final = "its integers were not judged"


@cache
def _between() -> tuple[str, ...]:
    """What stands between the operators of a quantised file: the ends of its nodes' labels."""
    return tuple(f" ({op})" for each in formats().values() for op in each.quantising)


@dataclass(frozen=True, slots=True)
class QuantisedFile:
    """What is known of a quantised file on a platform.

    decided: whether its integers decide. detail: a sentence; of an undecided file, why. faults: the worst first; none
    where the format allows each integer.
    """

    decided: bool
    detail: str
    faults: tuple[Fault, ...] = ()


def quantised_file(comparison: GraphComparison, run: OwnRun, probe: Probe) -> QuantisedFile | None:
    """Returns what the integers of a model file on a platform say. None for a file without quantised values that it can
    show.

    `run`: what the file gave.
    """
    from mindgap.judge.oracle import OracleError

    known = formats()[Path(run.way).suffix]
    try:
        functional = functionalize(comparison.graph)
    except GraphError as error:
        return QuantisedFile(False, f"{_NOT_JUDGED}: {error}") if is_quantised(comparison.graph) else None
    values = {each.number: each for each in quantised_values(functional.graph)}
    # A file of integers that are only moved rounds none.
    if run.outputs is None or not (values or known.shows_results):
        return None
    names = _numbers_by_result(functional) if known.shows_results else _numbers_by_name(functional, values)
    inputs = materialise_all(comparison.graph, comparison.context.tensors)
    given = [array for array, place in zip(inputs, comparison.graph.inputs, strict=True) if place.role == "input"]
    narrow = is_narrow(comparison, run.platform)

    def examined(platform: PlatformName, narrow: bool) -> _Examined | None:
        probed = probe(platform, given)
        if probed is None:
            return None
        outputs, integers = probed
        numbers = {names[name]: array for name, array in integers.items() if name in names}
        if known.shows_results:
            numbers = _of_declared_form(functional.graph, numbers)
            parts = shown_parts(functional.graph, numbers)
            numbers |= {number: array for number, array in parts.items() if number in values}
        examinations = examine_quantised(functional.graph, inputs, numbers, outputs, narrow, rule=known.rule)
        return _Examined(outputs, numbers, examinations)

    try:
        examinations = examined(run.platform, narrow)
        if examinations is None:
            return None
        if len(examinations.outputs) != len(run.outputs) or distance(examinations.outputs, run.outputs) > 0:
            return QuantisedFile(False, "with its integers as further outputs the file gives other results")
        judged = confirmed(
            functional.graph,
            inputs,
            examinations.integers,
            examinations.outputs,
            narrow,
            examinations.found,
            known.rule,
        )
        judged = _with_unknown(functional, values, examinations.integers, judged)
        judged = [_with_shown_integers(functional, values, each) for each in judged]
        referees = {each: partial(examined, each, False) for each in known.checks(run.platform)}
        judged, gives = _expected_elsewhere(judged, known, referees)
        wrong = [each for each in judged if each.kind in _WRONG]
        if not wrong:
            return _without_faults(functional, judged, len(examinations.integers), known.rule)
    except (MindgapError, OracleError) as error:
        return QuantisedFile(False, f"{_NOT_JUDGED}: {str(error).partition(chr(10))[0]}")
    faults = _faults(functional, values, wrong, run, gives)
    undecided = sum(each.kind == "undecided" for each in judged)
    more = f"; {undecided} of its values are not judged" if undecided else ""
    return QuantisedFile(True, f"{faults[0].detail}{more}", faults)


@dataclass(frozen=True, slots=True)
class _Examined:
    """What a run of a probed file gave: outputs, integers by number of the value, and what was found of them."""

    outputs: tuple[Array, ...]
    integers: dict[int, Array]
    found: list[QuantisedExamination]


def _with_unknown(
    functional: Functional, values: Mapping[int, QuantisedValue], integers: Mapping[int, Array],
    judged: Sequence[QuantisedExamination],
) -> list[QuantisedExamination]:  # fmt: skip
    """The examinations, undecided where a quantised value before it is not among the integers that the platform showed:
    a step that was taken there is not known."""
    graph, known = functional.graph, frozenset(integers) | frozenset(values)
    arguments = {number for number, each in enumerate(graph.inputs) if each.role == "input"}
    changing = arguments | values_after(graph, arguments)
    examinations: list[QuantisedExamination] = []
    for each in judged:
        unknown = [n for n in sources(graph, each.number, known) if n in changing and n not in integers]
        if unknown and not each.form:
            label = _label(functional, values[min(unknown)].node)
            examinations.append(replace(each, kind="undecided", why=f"the integers of {label} are not shown"))
        else:
            examinations.append(each)
    return examinations


def _with_shown_integers(
    functional: Functional, values: Mapping[int, QuantisedValue], one: QuantisedExamination
) -> QuantisedExamination:
    """What was found of an output; undecided where it is not the dequantised integers that the platform showed: it did
    not compute with them."""
    dequantised = _label(functional, one.node).endswith(_between()) and one.number not in values
    if one.kind != "discrepant" or one.form or not dequantised:
        return one
    return replace(one, kind="undecided", why="it is not made of the integers that the platform gives as an output")


def _without_faults(
    functional: Functional, judged: Sequence[QuantisedExamination], shown: int, rule: QuantisationRule
) -> QuantisedFile:
    """The text where nothing is wrong: how many values were judged, or the first that could not be."""
    undecided = [each for each in judged if each.kind == "undecided"]
    if undecided:
        first = undecided[0]
        more = f", and {len(undecided) - 1} more values are not judged" if len(undecided) > 1 else ""
        return QuantisedFile(False, f"{_label(functional, first.node)} is not judged: {first.why}{more}")
    detail = f"each of the {shown} quantised values that it shows is {rule.within}"
    if by_factor := sum(each.by_factor for each in judged):
        detail += f"; {by_factor} elements of them with a factor of 31 bits that is shifted, not in float32"
    return QuantisedFile(True, detail)


def _expected_elsewhere(
    judged: Sequence[QuantisedExamination], known: ModelFormat,
    referees: Mapping[PlatformName, Callable[[], _Examined | None]],
) -> tuple[list[QuantisedExamination], dict[int, PlatformName]]:  # fmt: skip
    """The examinations, and which referee gives what is expected of each wrong value. Where none does, the value is
    undecided. Referees run as long as a value needs one; one that cannot run the file decides nothing."""
    open_ones = {each.number for each in judged if each.kind in _WRONG}
    gives: dict[int, PlatformName] = {}
    others, failures = set[int](), list[str]()
    for platform, examine in referees.items():
        if not open_ones:
            break
        try:
            examinations = examine()
        except MindgapError as error:
            failures.append(f"{platform} does not run it: {str(error).partition(chr(10))[0]}")
            continue
        kinds = {each.number: each.kind for each in examinations.found} if examinations is not None else {}
        gives |= {number: platform for number in open_ones if kinds.get(number) == "right"}
        others |= {number for number in open_ones if kinds.get(number) in _WRONG}
        open_ones -= gives.keys()
    too, none = (
        f"{known.checks_words} other integers than expected there too",
        "nothing else gives the integers expected there",
    )
    why = {number: "; ".join((too if number in others else none, *failures)) for number in open_ones}
    return [replace(e, kind="undecided", why=why[e.number]) if e.number in why else e for e in judged], gives


def _numbers_by_name(functional: Functional, values: Iterable[int]) -> dict[str, int]:
    """The numbers of quantised values by the name of the node that they are the result of."""
    numbers: dict[str, int] = {}
    for number in values:
        name, _, op = _label(functional, functional.graph.producer[number]).rpartition(" (")
        if op:
            numbers[name] = number
    return numbers


def _numbers_by_result(functional: Functional) -> dict[str, int]:
    """The numbers of values by the name of the node whose last call gives them (`ProbedModel.nodes`)."""
    graph = functional.graph
    last: dict[str, int] = {}
    for index in range(len(graph.nodes)):
        name, _, op = _label(functional, index).rpartition(" (")
        if op:
            last[name] = index
    return {result_key(name, place): n for name, index in last.items() for place, n in enumerate(graph.results(index))}


def _of_declared_form(graph: Graph, numbers: Mapping[int, Array]) -> dict[int, Array]:
    """The integers whose value has their dtype and shape: the last call of a node may give another of its results."""
    specs = {number: graph.values[number] for number in numbers}
    return {
        number: array
        for number, array in numbers.items()
        if (spec := specs[number]) is not None and (spec.dtype, spec.shape) == (array.dtype.name, array.shape)
    }


def _label(functional: Functional, node: int) -> str:
    labels = functional.graph.labels.nodes
    return labels[node] if labels and node >= 0 else ""


def _faults(
    functional: Functional, values: Mapping[int, QuantisedValue], wrong: Sequence[QuantisedExamination], run: OwnRun,
    gives: Mapping[int, PlatformName],
) -> tuple[Fault, ...]:  # fmt: skip
    """One fault for each rule or operator that is wrong, then one for what float16 explains. `gives`: the platform that
    gives what is expected of a value."""
    groups: dict[str, list[QuantisedExamination]] = {}
    few = [each for each in wrong if each.kind == "reduced_precision"]
    for each in wrong:
        if each.kind == "discrepant":
            op = functional.graph.nodes[_operator(functional, values, each)].op
            groups.setdefault(each.rule or op, []).append(each)
    faults = [_discrepant(functional, values, group, run, gives) for group in groups.values()]
    return (*faults, _reduced(functional, values, few, run, gives)) if few else tuple(faults)


def _operator(functional: Functional, values: Mapping[int, QuantisedValue], one: QuantisedExamination) -> int:
    """The node that the file computes between two quantised values; the rounding itself where there is none.

    Where one node of a file both computes and quantises, it is its sum of products, or what stands before its division
    by the scale.
    """
    value = values.get(one.number)
    nodes = value.block if value is not None else ()
    between = [i for i in nodes if not _label(functional, i).endswith(_between())]
    own = [i for i in between if _label(functional, i) == _label(functional, one.node)]
    if not own:
        return between[-1] if between else one.node
    ops = {i: functional.graph.nodes[i].op for i in own}
    products = [i for i in own if traits(ops[i]).contracts]
    inside = own[:-1] if packet_of(ops[own[-1]]) == "div" else own
    computing = [i for i in inside if not traits(ops[i]).moves_data and not traits(ops[i]).casts]
    return (products or computing or own)[-1]


def _discrepant(
    functional: Functional, values: Mapping[int, QuantisedValue], group: Sequence[QuantisedExamination], run: OwnRun,
    gives: Mapping[int, PlatformName],
) -> Fault:  # fmt: skip
    first = group[0]
    nodes = [_operator(functional, values, each) for each in group]
    node = functional.origin[nodes[0]]
    culprit = OperatorCulprit((functional.graph.nodes[nodes[0]].op,), node, _label(functional, nodes[0]))
    return Fault(
        culprit, "discrepant", "platform", tuple(sorted({functional.origin[i] for i in nodes})),
        _words(functional, values, group, run, gives), _example(functional, first),
    )  # fmt: skip


def _reduced(
    functional: Functional, values: Mapping[int, QuantisedValue], few: Sequence[QuantisedExamination], run: OwnRun,
    gives: Mapping[int, PlatformName],
) -> Fault:  # fmt: skip
    nodes = {functional.origin[_operator(functional, values, each)] for each in few}
    worst = max(few, key=lambda each: each.beyond)
    detail = f"{_words(functional, values, few, run, gives)}; rounding to float16 leads as far"
    accept = f"to accept it: --allow '{run.platform}: float32 in float16'"
    return Fault(
        DtypePolicy("float32", "float16"), "reduced_precision", "platform", tuple(sorted(nodes)), detail,
        _example(functional, worst), advice=f"measure what that costs with mindgap study task; {accept}",
    )  # fmt: skip


def _words(
    functional: Functional, values: Mapping[int, QuantisedValue], group: Sequence[QuantisedExamination], run: OwnRun,
    gives: Mapping[int, PlatformName],
) -> str:  # fmt: skip
    """`model.onnx: 13 of 600 elements of conv (Conv) are other integers than ONNX's definition allows, by up to 1
    step: …; onnx/reference gives the expected ones`."""
    first = max(group, key=lambda each: (each.farthest, each.beyond))
    beyond = formats()[Path(run.way).suffix].rule.beyond
    label = _label(functional, _operator(functional, values, first))
    more = f", and of {len(group) - 1} more quantised values," if len(group) > 1 else ""
    if first.form:
        return f"{run.words}: {label}{more} is {first.form}"
    if first.number not in values:
        of = f"{run.words}: {first.count} of {first.elements} elements of {label}"
        discrete = not first.beyond
        return f"{of} are other than any rounding gives" if discrete else f"{of} are off by up to {first.beyond:.3g}"
    steps = "1 step" if first.farthest == 1 else f"{first.farthest} steps"
    how = first.rule or f"{first.beyond:.3g} of a step further from the exact quotient than rounding to nearest leads"
    expected = f"; {gives[first.number]} gives the expected ones" if first.number in gives else ""
    return (
        f"{run.words}: {first.count} of {first.elements} elements of {label}{more} are {beyond}, by up to "
        f"{steps}: {how}{expected}"
    )


def _example(functional: Functional, one: QuantisedExamination) -> Example | None:
    if not one.position:
        return None
    given = f"element {list(one.position)} of {_label(functional, one.node)}"
    why = f"the exact quotient with the zero point is {one.exact:.9g}, so right is {one.right:g}"
    return Example(given, f"{one.got:g}", f"{one.right:g}", why=why if one.farthest else "")
