"""Decides about a model file whose outputs are not those of its translated graph: a runtime's choice to quantise float
operands, or the side that ONNX's reference evaluator takes.

Beside integer weights some runtimes quantise the other operand of a product to 8 bits by default. OpenVINO calls it
dynamic quantisation (`DYNAMIC_QUANTIZATION_GROUP_SIZE`), ONNX Runtime an accuracy level of MatMulNBits
(`session.qdq_matmulnbits_accuracy_level`). Each has a setting that leaves it out: where the same file is right with it,
the choice is the cause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mindgap.graph.compare.culprit import DtypePolicy
from mindgap.graph.compare.metrics import distance
from mindgap.graph.compare.verdict import Fault
from mindgap.judge.oracle import OracleError
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.models.own_path.runs import OwnRun
from mindgap.platforms.name import PlatformName
from mindgap.results.advice import alternatives, with_option
from mindgap.results.rows import OwnPathStatus

#: What such an alternative remedies (`platforms.protocol.Alternative`).
_REMEDIES: Final = "int8"
#: The reference evaluator takes the side that is nearer to it by this factor.
_NEARER: Final = 0.1
_OPEN: Final = "Whether the runtime or mindgap's translation is wrong is open: ONNX's reference evaluator"


def quantised_operands(
    comparison: GraphComparison, run: OwnRun, run_program: Callable[[PlatformName], OwnRun | None]
) -> Fault | None:
    """Returns the policy as a fault, where the program is right on the same platform with float operands; else None.

    `run`: what the program gave. `run_program`: runs it on another platform.
    """
    option = next((each.option for each in alternatives(run.platform) if each.remedies == _REMEDIES), None)
    other = None if option is None else run_program(with_option(run.platform, option))
    reference = comparison.whole_reference().arrays
    if option is None or other is None or not other.outputs or reference is None:
        return None
    try:
        if any(comparison.beyond_rounding(run.platform, (*other.outputs, *reference[len(other.outputs) :]))):
            return None
    except OracleError:  # nothing says then that it is right
        return None
    apart = distance(run.outputs or (), reference[: len(run.outputs or ())])
    detail = (
        f"{run.words} quantises the float operands of products with integer weights to 8 bits: {apart:.2g} of the "
        f"largest magnitude, and rounding alone with {option}"
    )
    return Fault(DtypePolicy("float32", _REMEDIES, products=True), "reduced_precision", detail=detail)


def decided_by_reference(run: OwnRun, referee: OwnRun | None) -> tuple[OwnPathStatus, str]:
    """Returns which side of a model file the reference evaluator takes: the runtime's, or that of the translated
    graph."""
    if referee is None or referee.outputs is None or run.outputs is None:
        why = f": {referee.reason}" if referee is not None else ""
        return "differs", f"{_OPEN} did not run it{why}"
    runtimes, ours = distance(run.outputs, referee.outputs), distance(run.eager, referee.outputs)
    if ours <= runtimes * _NEARER:
        return "differs", "ONNX's reference evaluator gives what the translated graph gives: the runtime is wrong"
    if runtimes <= ours * _NEARER:
        return "unjudged", (
            "ONNX's reference evaluator gives what the runtime gives: mindgap's translation of the file is wrong, and "
            "what else this row says is of another model. Please report it"
        )
    return "differs", f"{_OPEN} gives a third result"
