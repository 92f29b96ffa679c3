"""Finds what must stay in float32: the oracle ranks, runs of the platform prove."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal

import numpy as np
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors
from mindgap.graph import Array, Graph, MindgapError
from mindgap.judge.oracle.evaluation.float64 import OPERATOR_ERRORS
from mindgap_diagnosis.precision.candidates import Operator
from mindgap_diagnosis.precision.noise import measured_noise
from mindgap_diagnosis.precision.search import MOST_RUNS, ranked, search
from mindgap_diagnosis.precision.targets import FileTarget, GraphTarget

#: Of each node the fastest run counts: the first pays for what happens once, others for what else the machine does.
_TIMED_RUNS: Final = 4


@dataclass(frozen=True, slots=True)
class Bound:
    """What the outputs must meet: a limit of the largest difference in an output, as a share of its largest magnitude;
    of `flips`, of how many decisions change."""

    limit: float = 1e-2
    measure: Literal["error", "flips"] = "error"

    def measured(self, exact: Sequence[Array], given: Sequence[Array]) -> float:
        """Measures outputs (numpy, in the graph's order) against those in float64. Infinite for NaN or infinity where
        float64 has a number."""
        pairs = list(zip(exact, given, strict=True))
        if self.measure == "flips":
            return float(sum(_flips(a, b) for a, b in pairs))
        return max((_error(a, b) for a, b in pairs if a.dtype.kind in "fc"), default=0.0)


def _error(exact: Array, given: Array) -> float:
    wide = given.astype(exact.dtype)
    here = np.isfinite(exact)
    if not here.any():
        return 0.0
    if not np.isfinite(wide[here]).all():
        return math.inf
    return float(np.abs(wide[here] - exact[here]).max() / (np.abs(exact[here]).max() or 1.0))


def _flips(exact: Array, given: Array) -> int:
    """Changed decisions: rows of the last dimension whose largest element is another; elements of other outputs."""
    if exact.dtype.kind not in "f":
        return int((exact != given).sum())
    if exact.ndim == 0 or exact.shape[-1] < 2:
        return 0
    lost = ~np.isfinite(given.astype(np.float64)).all(-1) & np.isfinite(exact).all(-1)
    return int(((exact.argmax(-1) != given.argmax(-1)) | lost).sum())


@dataclass(frozen=True)
class Precision:
    """What must stay in float32 for the outputs of one model to meet a bound on a platform.

    `to`: the format of the others. `operators`: how many there are. `carriers`: names of nodes that only move data and
    lie between kept ones. `before`, `after`, `all_float32`: measured with none, with these, and with all in float32
    (None: not measured). `runs`: of the platform. `minimal`: each was given back alone. `lists`: by tool, the list as
    it takes that. `notes`: what a reader must know. `time_share`: as of the function.
    """

    model: str
    platform: str
    to: str
    measure: Literal["error", "flips"]
    bound: float
    operators: int
    kept: tuple[Operator, ...]
    carriers: tuple[str, ...]
    before: float
    after: float
    all_float32: float | None
    runs: int
    minimal: bool
    lists: Mapping[str, str]
    notes: tuple[str, ...] = ()
    saved: str = ""
    saved_error: float | None = None
    time_share: float | None = None


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
    noise = measured_noise(target.graph, target.arrays, target.of, target.to)
    exact = [y.numpy() for y in noise.outputs]
    if bound.measure == "error" and not any(y.dtype.kind in "fc" and y.size for y in exact):
        raise MindgapError("no output is a float, so there is no error to measure: --flips 0 counts decisions")

    @cache
    def measure(kept: frozenset[int]) -> float:
        outputs = target.outputs(kept)
        return math.inf if outputs is None else bound.measured(exact, outputs)

    # The first run shows which operators the platform has no kernel for.
    measure(frozenset[int]())
    proved = search(ranked(len(operators), noise.edges, frozenset(target.refused)), measure, bound.limit, most_runs)
    where = f"{model} on {target.platform}"
    if target.failure and not target.lowered:
        raise MindgapError(f"{where}: it ran with no operator in {target.to}, the first failure: {target.failure}")
    if not proved.after <= bound.limit:
        what = "error" if bound.measure == "error" else "changed decisions"
        raise MindgapError(
            f"{where}: nothing meets the bound of {bound.limit:g}: with all {len(proved.kept)} operators in float32 "
            f"the {what} is {proved.after:.3g}. Give a larger one"
        )
    if not noise.derived:
        target.notes.append("an operator has no derivative: operators are ranked by relative errors alone")
    order = [*sorted(target.refused), *proved.kept]
    kept, chosen, given_back = frozenset(order), [operators[i] for i in order], proved.given_back
    carriers = target.carriers(kept)
    listed = (replace(operators[i], given_back=given_back.get(i), refused=i in target.refused) for i in order)
    answer = Precision(
        model, str(target.platform), target.to, bound.measure, bound.limit, len(operators), tuple(listed),
        tuple(carriers), proved.before, proved.after, proved.all_wide, proved.runs, proved.proved,
        target.lists(chosen, carriers), tuple(target.notes),
        time_share=time_share(target.graph, target.arrays, [node for each in chosen for node in each.nodes]),
    )  # fmt: skip
    return answer, kept, exact


def time_share(graph: Graph, inputs: Sequence[Array], nodes: Collection[int]) -> float | None:
    """Returns the share (0 to 1) of `nodes` in the time of all nodes, run one by one by eager PyTorch on this processor
    in the graph's dtypes; None where it does not run them. `graph`: functional; `inputs`: numpy, all of them."""
    seconds = [math.inf] * len(graph.nodes)

    def timed(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        begin = time.perf_counter()
        result = function(*args, **kwargs)
        seconds[index] = min(seconds[index], time.perf_counter() - begin)
        return result

    tape = Tape(graph)
    try:
        with torch.no_grad():
            for _ in range(_TIMED_RUNS):
                tape.run(input_tensors(graph, inputs), call=timed)
    except OPERATOR_ERRORS:
        return None
    return sum(seconds[index] for index in nodes) / (sum(seconds) or 1.0)
