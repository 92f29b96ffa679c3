"""Asks which samples rounding alone can give another label: their margin is below what rounding of the graph can do.

The oracle evaluates the graph in float64 and bounds how far rounding moves each output (`rounding_limit`). Two labels
whose exact outputs are nearer to each other than the limits of both together can change places on a correct platform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindgap.aten.functional import functionalize
from mindgap.graph import Array, GraphError, MindgapError, TensorStore
from mindgap.judge.oracle import Oracle, OracleError, rounding_limit
from mindgap.judge.oracle.evaluation.formats import FORMATS
from mindgap.judge.trace.dtype_policy import policies_of
from mindgap_studies.results.predictions import NearTie
from mindgap_studies.task_runs.columns import ModelForm


@dataclass(frozen=True)
class ExactOutputs:
    """The first output of a batch in exact arithmetic (each operator's result rounded to its dtype), and the limits.

    exact, limits: [batch, …, classes], float64.
    """

    exact: Array
    limits: Array

    def decides(self, usual: float, growth: float = 1.0) -> bool:
        """Returns whether the limits, times `growth`, tell anything: those of the two best labels are mostly below the
        usual margin."""
        limits = self.limits.reshape(-1, self.limits.shape[-1])
        two = np.argsort(-self.exact.reshape(limits.shape), -1)[:, :2]
        return bool(growth * np.median(np.take_along_axis(limits, two, -1).sum(-1)) < usual)

    def between(self, place: tuple[int, ...], first: int, second: int) -> tuple[float, float]:
        """Returns how far two labels are apart at a place of the batch, and how far rounding can move them together."""
        row, limit = self.exact[place], self.limits[place]
        return abs(float(row[first] - row[second])), float(limit[first] + limit[second])


def exact_outputs(form: ModelForm, inputs: Sequence[Array], tensors: TensorStore) -> ExactOutputs:
    """Evaluates the graph of a form on a full batch. Raises `MindgapError` where the oracle cannot."""
    given = form.materialised(inputs, tensors)
    try:
        functional = functionalize(form.graph).graph
        oracle = Oracle(functional, given)
        expected = oracle.expectation(functional.outputs[0])
        limits = rounding_limit(expected)
    except (OracleError, GraphError) as error:
        raise MindgapError(f"what rounding can do is not known: {error}") from None
    return ExactOutputs(expected.step.numpy(), np.nan_to_num(limits.numpy(), nan=np.inf, posinf=np.inf))


def near_tie(form: str, sample: int, place: int, found: ExactOutputs) -> NearTie:
    """Returns the rival that rounding swaps first with the best label of a sample; of a text, at its worst position."""
    exact, limits = found.exact[place].reshape(-1, found.exact.shape[-1]), found.limits[place]
    limits = limits.reshape(exact.shape)
    rows, best = np.arange(len(exact)), exact.argmax(-1)
    margins = exact[rows, best][:, None] - exact
    together = limits[rows, best][:, None] + limits
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(together > 0, margins / together, np.inf)
    ratios[rows, best] = np.inf
    row, rival = np.unravel_index(int(ratios.argmin()), ratios.shape)
    return NearTie(
        form, sample, int(best[row]), int(rival), float(margins[row, rival]), float(together[row, rival])
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NarrowArithmetic:
    """How a platform computes floats of a graph in fewer bits than declared.

    words: for a note. growth: by how much its roundings are larger, in the first order; infinite where this is not
    known. computed: the dtype, or `quantised`.
    """

    words: str
    growth: float
    computed: str


def narrow_arithmetic(described: Mapping[str, Any], form: ModelForm) -> NarrowArithmetic | None:
    """Returns the arithmetic that a platform is described with, None for that of the declared dtypes.

    `described`: of the platform's worker; `dtypes` as `platforms.dtype_policy` measures them, or `quantised`.
    """
    if quantised := described.get("quantised"):
        return NarrowArithmetic(f"the platform quantises the model ({quantised})", np.inf, "quantised")
    found: list[NarrowArithmetic] = []
    for policy in policies_of(described.get("dtypes", {}), form.graph):
        if policy.declared in FORMATS and policy.computed in FORMATS and policy.declared != policy.computed:
            what = f"products of {policy.declared}" if policy.products else policy.declared
            words = f"the platform computes {what} in {policy.computed}"
            growth = FORMATS[policy.computed].u / FORMATS[policy.declared].u
            found.append(NarrowArithmetic(words, growth, policy.computed))
    return max(found, key=lambda each: each.growth, default=None)
