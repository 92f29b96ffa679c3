"""Finds what must stay in float32: the oracle ranks, runs of the platform prove."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mindgap.graph import Array, MindgapError
from mindgap_diagnosis.precision.noise import LOWER, measured_noise
from mindgap_diagnosis.precision.result import Bound, KeptOperator, Precision
from mindgap_diagnosis.precision.search import MOST_RUNS, Proved, ranked, search
from mindgap_diagnosis.precision.targets import FileTarget, GraphTarget
from mindgap_diagnosis.precision.time_share import time_share


def find_precision(
    target: GraphTarget | FileTarget, bound: Bound, model: str, most_runs: int = MOST_RUNS
) -> tuple[Precision, frozenset[int], Sequence[Array]]:
    """Finds the operators that must stay in float32. Returns also their positions, and the outputs in float64.

    Raises `MindgapError` where the model has no operators in float32, no output can be measured, the platform runs none
    of them in the smaller format, or nothing meets the bound.
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
    proved = search(ranking, lambda kept: known[kept] if kept in known else measure(kept), bound.limit, most_runs)
    where = f"{model} on {target.platform}"
    if target.failure and not target.lowered:
        raise MindgapError(f"{where}: it ran with no operator in {target.to}, the first failure: {target.failure}")
    if not proved.after <= bound.limit:
        raise MindgapError(
            f"{where}: nothing meets the bound of {bound.limit:g}: with all {len(proved.kept)} operators in float32 "
            f"the {'error' if bound.flips is None else 'changed decisions'} is {proved.after:.3g}. Give a larger one"
        )
    if not noise.derived:
        target.notes.append("an operator has no derivative: operators are ranked by relative errors alone")
    kept = frozenset(proved.kept) | target.refused
    return _result(target, bound, model, proved, target.carriers(kept)), kept, exact


def _result(
    target: GraphTarget | FileTarget, bound: Bound, model: str, proved: Proved, carriers: Sequence[str]
) -> Precision:
    operators, order = target.of.operators, [*sorted(target.refused), *proved.kept]
    listed = [operators[i] for i in order]
    return Precision(
        model, str(target.platform), target.to, "error" if bound.flips is None else "flips", bound.limit,
        len(operators),
        tuple(
            KeptOperator(each.name, each.line, each.kind, proved.given_back.get(i), i in target.refused)
            for i, each in zip(order, listed, strict=True)
        ),
        tuple(carriers), proved.before, proved.after, proved.all_wide, proved.runs, proved.proved,
        target.lists(listed, carriers), tuple(target.notes),
        time_share=time_share(target.graph, target.arrays, [node for each in listed for node in each.nodes]),
    )  # fmt: skip
