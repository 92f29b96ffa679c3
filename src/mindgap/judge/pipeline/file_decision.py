"""Decides which side of a model file's difference is wrong: the runtime's, or that of the translated graph.

The reference evaluator of the format decides, and the integers of a quantised file, which one rule proves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mindgap.graph.compare.verdict import Blame, Fault
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.judge.pipeline.model_files import (
    BY_STEPS,
    decided_by_reference,
    has_faults_of_translation,
    is_narrow,
    is_order_of_dequantisation,
    is_quantised,
    is_referee,
    is_steps_off,
    policy_of_operands,
    reach_of_steps,
)
from mindgap.judge.pipeline.own_path_comparison import Compared, has_other_forms, sides
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.model_formats import QuantisationRule, formats
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import OwnPathStatus, Row

if TYPE_CHECKING:
    from mindgap.judge.pipeline.quantised_files import Probe, QuantisedFile

#: Runs the program by the way of a platform's users.
RunProgram = Callable[[PlatformName], OwnRun | None]


@dataclass(frozen=True, slots=True)
class FileDecision:
    """The comparison of a file after others decided, and whom it blames.

    faults: that are known already, so that no node is looked for. `quantised`: the integers of the file decide alone:
    what is known of its translated graph is left out. `explains_graph`: the fault explains what its graph shows, too.
    """

    compared: Compared
    blame: Blame | None = None
    faults: tuple[Fault, ...] = ()
    quantised: bool = False
    explains_graph: bool = False


def decided_file(
    comparison: GraphComparison, row: Row, run: OwnRun, compared: Compared, referee: RunProgram, probe: Probe | None
) -> FileDecision:
    """Returns what others say of a comparison of a model file. `row`: of its translated graph.

    Nothing decides about itself; of a quantised file other kernels may (`ModelFormat.reference_defines`).
    """
    decides, known = is_referee(row.platform), formats()[Path(run.way).suffix]
    if decides and known.reference_defines:
        return FileDecision(compared)
    is_judged = comparison.context.settings.judge
    is_open = compared.status in ("differs", "as_graph") or (compared.status == "unjudged" and is_judged)
    if is_open and not decides and (policy := policy_of_operands(comparison, run, referee)) is not None:
        decided = replace(compared, status="differs", text=policy.detail, reasons=())
        return FileDecision(decided, faults=(policy,), explains_graph=compared.status == "as_graph")
    ours, expected = sides(comparison, run, "reference")
    if compared.status == "differs" and is_order_of_dequantisation(comparison.graph, ours, compared.apart or 1.0):
        compared = replace(compared, status="rounding", text="", reasons=())
    narrow = probe is not None and row.finding and is_narrow(comparison, row.platform)
    # Rounding that decides a position allows any integer, so that the outputs alone do not tell.
    steps_off = compared.status == "rounding" and is_steps_off(ours, expected)
    quantised = _integers(comparison, run, compared, probe, doubted=narrow or steps_off)
    if quantised is not None and quantised.decided:
        status: OwnPathStatus = "same" if compared.status == "same" else "rounding"
        compared = replace(compared, status=status, text=quantised.detail, reasons=())
        if quantised.faults:
            return FileDecision(replace(compared, status="differs"), faults=tuple(quantised.faults), quantised=True)
        return FileDecision(compared, quantised=narrow and has_faults_of_translation(row))
    if quantised is not None:
        text = ". ".join(filter(None, (compared.text, quantised.detail)))
        compared = replace(compared, text=text, status="unjudged" if steps_off else compared.status)
    if compared.status == "differs" and compared.against == "reference" and not has_other_forms(comparison, run):
        compared = _compared_by_steps(comparison, compared, quantised is not None, decides, known.rule)
    if compared.status != "differs" or decides:
        return FileDecision(compared)
    status, decided, blame = decided_by_reference(run, referee)
    if quantised is not None and blame is None:
        status = "unjudged"  # integers that no other implementation gives, nor the graph proves
    return FileDecision(replace(compared, status=status, text=f"{compared.text}. {decided}"), blame)


def _integers(
    comparison: GraphComparison, run: OwnRun, compared: Compared, probe: Probe | None, doubted: bool
) -> QuantisedFile | None:
    """What the integers of a quantised file say; None where they are not looked at, or the file has none."""
    if probe is None or compared.against != "reference" or not (doubted or compared.status in ("differs", "unjudged")):
        return None
    from mindgap.judge.pipeline.quantised_files import quantised_file  # imports PyTorch

    return quantised_file(comparison, run, probe)


def _compared_by_steps(
    comparison: GraphComparison, compared: Compared, quantised: bool, decides: bool, rule: QuantisationRule
) -> Compared:
    """The comparison of a quantised file whose integers decide nothing: only further off than steps lead, the outputs
    alone tell."""
    if quantised:
        far = (compared.apart or 0.0) > reach_of_steps(comparison.graph)
        return replace(compared, status="differs" if far and not decides else "unjudged")
    if rule.rescales and is_quantised(comparison.graph):
        return replace(compared, status="unjudged", text=f"{compared.text}. {BY_STEPS}")
    return compared
