"""Decides about a model file whose outputs are not those of its translated graph: a runtime's choice to quantise float
operands, or the side that the format's reference implementation takes.

Beside integer weights some runtimes quantise the other operand of a product to 8 bits by default. OpenVINO calls it
dynamic quantisation (`DYNAMIC_QUANTIZATION_GROUP_SIZE`), ONNX Runtime an accuracy level of MatMulNBits
(`session.qdq_matmulnbits_accuracy_level`). Each has a setting that leaves it out: where the same file is right with it,
the choice is the cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np

from mindgap.graph import Array, Graph, GraphError, operands
from mindgap.graph.compare.culprit import DtypePolicy
from mindgap.graph.compare.metrics import distance
from mindgap.graph.compare.verdict import Blame, Fault
from mindgap.graph.operators import traits
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.judge.pipeline.outcome_rows import is_error
from mindgap.judge.pipeline.own_path_reasons import led_by
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.model_formats import Referee, formats
from mindgap.platforms.name import PlatformName
from mindgap.results.advice import alternatives, with_option
from mindgap.results.rows import OwnPathStatus, Row

#: What such an alternative remedies (`platforms.protocol.Alternative`).
_REMEDIES: Final = "int8"
#: Dtypes of weights that make a runtime quantise the other operand. Integers of fewer bits are in bytes here.
_INTEGERS: Final = frozenset({"int8", "uint8"})
#: How far operands of 8 bits may lead, of the largest magnitude: a step of 8 bits for each product, at least as far as
#: a choice of precision leads elsewhere (`own_path._PRECISION`), and never as far as an output of zeros is off (1).
_STEP: Final = 1 / 127
_LEAST_FAR: Final = 0.05
_FURTHEST: Final = 0.25
#: Dtypes of fewer bits in which platforms sum products of float32.
_NARROW: Final = frozenset({"bfloat16", "float16"})
#: Findings about a translated graph in floats that are not the file's on a platform that computes floats in fewer bits.
_OF_FLOATS: Final = frozenset({"reduced_precision", "discrepant", "internal"})
#: Dtypes of quantised values.
_QUANTISED: Final = frozenset({"int8", "uint8", "int16", "uint16"})
#: What is known of a quantised file whose integers are not examined.
BY_STEPS: Final = (
    "The file is quantised: right kernels may give integers that are a step apart, and what follows may enlarge that"
)
#: No sum of steps that right kernels take early is further off.
_STEPS: Final = 32
#: Four roundings of float32 to nearest.
_ORDER: Final = 4 * 2.0**-24
#: The reference takes the side that is nearer to it by this factor.
_NEARER: Final = 0.1


def policy_of_operands(
    comparison: GraphComparison, run: OwnRun, run_program: Callable[[PlatformName], OwnRun | None]
) -> Fault | None:
    """Returns a platform's choice of fewer bits for operands of products as a fault, where the program is right on the
    same platform without it; else None.

    The policy explains outputs of the reference's number, shapes and dtypes, finite where the reference is, and no
    further off than the choice leads: 8 bits, of a graph that multiplies by integer weights; or the dtype in which the
    platform was measured to sum products of float32.
    `run`: what the program gave. `run_program`: runs it on another platform.
    """
    products = products_with_integers(comparison.graph)
    narrow = str(comparison.context.dtypes(run.platform).get("float32", {}).get("matmul_in", ""))
    steps = min(max(_LEAST_FAR, products * _STEP), _FURTHEST)
    policies = {
        _REMEDIES: (steps, bool(products), DtypePolicy("float32", _REMEDIES, True)),
        "float32": (_LEAST_FAR, narrow in _NARROW, DtypePolicy("float32", narrow, True)),
    }  # fmt: skip
    whole = comparison.whole_reference().arrays
    if not run.outputs or whole is None:
        return None
    apart = distance(run.outputs, whole[: len(run.outputs)])
    for each in alternatives(run.platform):
        furthest, possible, policy = policies.get(each.remedies, (0.0, False, DtypePolicy("float32")))
        if possible and apart <= furthest and _is_right(comparison, run, run_program, each.option):
            does = (
                "quantises the float operands of products with integer weights to 8 bits"
                if each.remedies == _REMEDIES else f"sums products of float32 in {narrow}"
            )  # fmt: skip
            detail = f"{run.words} {does}: {apart:.2g} of the largest magnitude, and rounding alone with {each.option}"
            return Fault(policy, "reduced_precision", "platform", detail=detail)
    return None


def _is_right(
    comparison: GraphComparison, run: OwnRun, run_program: Callable[[PlatformName], OwnRun | None], option: str
) -> bool:
    """Whether a program that is wrong on a platform is within rounding there with an option."""
    from mindgap.judge.oracle import OracleError

    other, whole = run_program(with_option(run.platform, option)), comparison.whole_reference().arrays or ()
    if other is None or not other.outputs or run.outputs is None or len(other.outputs) != len(run.outputs):
        return False
    rest = whole[len(run.outputs) :]
    try:
        # Where the first outputs are right, what is wrong is a second call, or other arguments.
        if not any(comparison.beyond_rounding(run.platform, (*run.outputs, *rest))):
            return False
        return not any(comparison.beyond_rounding(run.platform, (*other.outputs, *rest)))
    except OracleError:  # there is no evidence then that it is right
        return False


def products_with_integers(graph: Graph) -> int:
    """Returns how many nodes sum products of a value and of weights that are made of a matrix of 8-bit integers."""
    fixed = [given.role not in ("input", "random") for given in graph.inputs]
    integer = [
        known and given.spec.dtype in _INTEGERS and len(given.spec.shape) > 1
        for known, given in zip(fixed, graph.inputs, strict=True)
    ]
    count = 0
    for node in graph.nodes:
        read = operands(node)
        known, of_integers = all(fixed[n] for n in read), any(integer[n] for n in read)
        count += traits(node.op).contracts and of_integers and not known
        fixed += [known] * len(node.outputs)
        integer += [known and of_integers] * len(node.outputs)
    return count


def is_order_of_dequantisation(graph: Graph, outputs: Sequence[Array], apart: float) -> bool:
    """Whether floats are off by no more than a dequantisation `(x − z)·s` is where it is computed as `x·s − z·s`, as
    OpenVINO does: a few roundings of the largest magnitude."""
    from mindgap.judge.quantised import dequantising_scale  # imports PyTorch

    floats = all(each.dtype == np.float32 for each in outputs)
    return (
        floats and apart <= _ORDER and any(dequantising_scale(graph, n) is not None for n in range(len(graph.values)))
    )


def is_referee(platform: PlatformName) -> bool:
    """Whether a platform decides about files of a format: nothing decides about itself."""
    return any(platform == each.referees[0].platform for each in formats().values())


def is_narrow(comparison: GraphComparison, platform: PlatformName) -> bool:
    """Returns whether a platform was measured to compute float32 in fewer bits. The translated graph of a quantised
    file spells out in floats what such a platform is given in integers, and its findings are not the file's."""
    return comparison.context.dtypes(platform).get("float32", {}).get("computes_in") in _NARROW


def is_declared(comparison: GraphComparison, platform: PlatformName) -> bool:
    """Returns whether a platform was measured to compute float32 and its products in float32."""
    known = comparison.context.dtypes(platform).get("float32", {})
    return known.get("computes_in") == "float32" and known.get("matmul_in", "float32") == "float32"


def is_quantised(graph: Graph) -> bool:
    """Returns whether a graph rounds values to 8 or 16 bits, or is given such integers."""
    made = any(
        traits(node.op).casts and spec is not None and spec.dtype in _QUANTISED
        for node in graph.nodes for spec in node.outputs
    )  # fmt: skip
    return made or any(each.role == "input" and each.spec.dtype in _QUANTISED for each in graph.inputs)


def reach_of_steps(graph: Graph) -> float:
    """Returns how far steps that right kernels take early may lead, of the largest magnitude: `_STEPS` of the coarsest
    quantised type. Infinity where a graph has none."""
    from mindgap.aten.functional import functionalize  # imports PyTorch
    from mindgap.judge.quantised import quantised_values

    widths = [each.high - each.low for each in quantised_values(functionalize(graph).graph)]
    return _STEPS / min(widths) if widths else math.inf


def has_quantised_values(graph: Graph) -> bool:
    """Returns whether a graph rounds values to steps, saturates them and casts them to integers of 8 or 16 bits."""
    from mindgap.aten.functional import functionalize  # imports PyTorch
    from mindgap.judge.quantised import quantised_values

    try:
        return bool(quantised_values(functionalize(graph).graph))
    except GraphError:
        return is_quantised(graph)


def has_faults_of_translation(row: Row) -> bool:
    """Returns whether the result of a row may come from the translation of a file: an error, a refusal, or other values
    in floats. A crash, a timeout and NaN do not."""
    if row.verdict == "failed":
        return is_error(row)
    return all(each.verdict in _OF_FLOATS for each in row.independent_faults)


def without_translation_faults(row: Row, run: OwnRun, other_forms: bool) -> tuple[Row, bool]:
    """Returns the row of a translated graph without what is not about the file, and whether nothing is left.

    Where the file runs, an error of the graph is of the translation. Where its outputs have the right shapes and dtypes
    too (not `other_forms`), so are the graph's structural faults: a converter may make int32 of int64. Left are crashes
    and other values.
    """
    if run.outputs is None:
        return row, False
    faults = row.independent_faults
    kept = [each for each in faults if other_forms or each.verdict != "structural"]
    if kept and len(kept) < len(faults):
        row = led_by(row, kept)
    return row, is_error(row) or bool(faults and not kept)


def referee_of(run_program: Callable[[PlatformName], OwnRun | None], file: str) -> dict[PlatformName, OwnRun | None]:
    """Returns the run of the reference of a file's format: empty where it gives no outputs, or others each time, as
    for an operator that draws random numbers. `file`: its name."""
    known = formats().get(Path(file).suffix)
    if known is None:
        return {}
    decides = known.referees[0].platform
    runs = [run_program(decides) for _ in range(2)]
    outputs = [run.outputs for run in runs if run is not None and run.outputs is not None]
    return {decides: runs[0]} if len(outputs) == len(runs) and not distance(*outputs) else {}


def decided_by_reference(
    run: OwnRun, run_program: Callable[[PlatformName], OwnRun | None]
) -> tuple[OwnPathStatus, str, Blame | None]:
    """Returns which side of a model file others take, the runtime's, or that of the translated graph: the status, a
    sentence, whom it blames. `run_program`: runs the file on another platform."""
    known, *runtimes = formats()[Path(run.way).suffix].referees
    side, why = _side(run, known, run_program)
    sides = {known: side}
    if not side:
        independent = [each for each in runtimes if each.is_independent(run.platform)]
        sides |= {each: _side(run, each, run_program)[0] for each in independent}
    takers = {side: [each.words for each in sides if sides[each] == side] for side in ("graph", "runtime")}
    if takers["graph"] and not takers["runtime"]:
        text = f"{' and '.join(takers['graph'])} gives what the translated graph gives: the runtime is wrong"
        return "differs", text, "platform"
    if takers["runtime"] and not takers["graph"]:
        text = (
            f"{' and '.join(takers['runtime'])} gives what the runtime gives: mindgap's translation of the file is "
            "wrong, and what else this row says is of another model. Please report it"
        )
        return "unjudged", text, None
    text = f"Whether the runtime or mindgap's translation is wrong is open: {known.words} {why}"
    return "differs", text, None


def _side(
    run: OwnRun, referee: Referee, run_program: Callable[[PlatformName], OwnRun | None]
) -> tuple[Literal["graph", "runtime", ""], str]:
    """Which side a referee takes, and where none, why."""
    other = run_program(referee.platform)
    if other is None or other.outputs is None or run.outputs is None:
        return "", f"did not run it{f': {other.reason}' if other is not None else ''}"
    theirs, ours = distance(run.outputs, other.outputs), distance(run.eager, other.outputs)
    if ours <= theirs * _NEARER:
        return "graph", ""
    return ("runtime", "") if theirs <= ours * _NEARER else ("", "gives a third result")


def is_steps_off(ours: Sequence[Array], expected: Sequence[Array]) -> bool:
    """Whether an output of quantised integers is more than a step off the expected one."""
    pairs = [(a, b) for a, b in zip(ours, expected, strict=False) if a.dtype.name in _QUANTISED and a.shape == b.shape]
    return any(a.size and int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max()) > 1 for a, b in pairs)
