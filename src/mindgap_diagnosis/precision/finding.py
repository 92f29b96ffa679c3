"""Finds what must stay in float32: the oracle ranks, runs of the platform prove."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mindgap.graph import Array, MindgapError
from mindgap_diagnosis.precision.candidates import Operator
from mindgap_diagnosis.precision.formats import LOWER
from mindgap_diagnosis.precision.noise import measured_noise
from mindgap_diagnosis.precision.result import Bound, KeptOperator, Precision
from mindgap_diagnosis.precision.search import MOST_RUNS, Proved, ranked, search
from mindgap_diagnosis.precision.targets import FileTarget, GraphTarget
from mindgap_diagnosis.precision.time_share import time_share


def find_precision(
    target: GraphTarget | FileTarget, bound: Bound, model: str, platform: str, most_runs: int = MOST_RUNS
) -> tuple[Precision, frozenset[int], Sequence[Array]]:
    """Finds the operators that must stay in float32. Returns also their positions, and the outputs in float64.

    Raises `MindgapError` where the model has no operators in float32, no output can be measured, or nothing meets the
    bound.
    """
    operators = target.of.operators
    if not operators:
        raise MindgapError(f"{model} has no operators in float32: there is nothing to lower to {target.to}")
    noise = measured_noise(target.graph, target.arrays, target.of, LOWER[target.to])
    exact = [y.numpy() for y in noise.outputs]
    bound.check(exact)

    def measure(kept: frozenset[int]) -> float:
        outputs = target.outputs(kept)
        return math.inf if outputs is None else bound.measured(exact, outputs)

    # The first run shows which operators the platform has no kernel for.
    known = {frozenset[int](): measure(frozenset())}
    ranking = ranked(len(operators), noise.edges, frozenset(target.refused))
    found = search(ranking, lambda kept: known[kept] if kept in known else measure(kept), bound.limit, most_runs)
    if not found.after <= bound.limit:
        raise MindgapError(_cannot(model, platform, bound, found))
    if not noise.derived:
        target.notes.append("an operator has no derivative: operators are ranked by relative errors alone")
    kept = frozenset(found.kept) | target.refused
    return _result(target, bound, model, platform, found, kept), kept, exact


def _cannot(model: str, platform: str, bound: Bound, found: Proved) -> str:
    what = "error" if bound.flips is None else "changed decisions"
    return (
        f"{model} on {platform}: nothing meets the bound of {bound.limit:g}: with all {len(found.kept)} operators in "
        f"float32 the {what} is {found.after:.3g}. Give a larger one"
    )


def _result(
    target: GraphTarget | FileTarget, bound: Bound, model: str, platform: str, found: Proved, kept: frozenset[int]
) -> Precision:
    operators = target.of.operators
    listed = [operators[i] for i in (*sorted(target.refused), *found.kept)]
    carriers = target.carriers(kept)
    refused = [operators[i] for i in target.refused]
    errors = {operators[i]: error for i, error in found.given_back.items()}
    return Precision(
        model, platform, target.to, "error" if bound.flips is None else "flips", bound.limit, len(operators),
        tuple(_kept(each, errors.get(each), each in refused) for each in listed), tuple(carriers),
        found.before, found.after, found.all_wide, found.runs, found.proved,
        target.lists(listed, carriers), tuple(target.notes),
        time_share=time_share(target.graph, target.arrays, [node for each in listed for node in each.nodes]),
    )  # fmt: skip


def _kept(operator: Operator, error: float | None, refused: bool) -> KeptOperator:
    return KeptOperator(operator.name, operator.line, operator.kind, error, refused)
