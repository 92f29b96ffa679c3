"""What quantisation itself costs: how far a quantised model's outputs are from the float model's, on the reference.

It is no part of a verdict: a platform is compared with the reference's run of the quantised model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mindgap.graph import Array
from mindgap.graph.spec import dtype_name, kind_of


@dataclass(frozen=True, slots=True)
class QuantisationCost:
    """How far the quantised model's float outputs are from the float model's, of the output that differs most.

    source: what names the float model.
    largest: max |quantised − float| over max |float|; infinite where only one side is finite.
    mean: mean |quantised − float| over mean |float|, of the elements that are finite on both sides.
    output: its position.
    reason: why nothing was compared; empty where it was.
    """

    source: str
    largest: float = 0.0
    mean: float = 0.0
    output: int = 0
    reason: str = ""

    @property
    def words(self) -> str:
        """One line for a person."""
        if self.reason:
            return f"quantisation against {self.source}: not compared: {self.reason}"
        where = f" of output {self.output}" if self.output else ""
        return (
            f"quantisation costs {_percent(self.largest)} at most and {_percent(self.mean)} on average{where} "
            f"against {self.source}, on the reference; no part of the verdict"
        )


def cost_of(source: str, quantised: Sequence[Array], floats: Sequence[Array]) -> QuantisationCost:
    """Compares the outputs of both models, in order."""
    if (ours := forms(quantised)) != (theirs := forms(floats)):
        reason = f"it returns {', '.join(theirs)} where the quantised model returns {', '.join(ours)}"
        return QuantisationCost(source, reason=reason)
    costs = [
        QuantisationCost(source, *_apart(a, b), position)
        for position, (a, b) in enumerate(zip(quantised, floats, strict=True))
        if kind_of(dtype_name(a.dtype)) == "float" and a.size
    ]
    if not costs:
        return QuantisationCost(source, reason="no output is a float")
    return max(costs, key=lambda each: each.largest)


def forms(arrays: Sequence[Array]) -> list[str]:
    """Returns dtypes and shapes in words."""
    return [f"{array.dtype}[{','.join(map(str, array.shape))}]" for array in arrays]


def _apart(ours: Array, theirs: Array) -> tuple[float, float]:
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    both = np.isfinite(a) & np.isfinite(b)
    lost = bool(((a != b) & ~both & ~(np.isnan(a) & np.isnan(b))).any())
    difference, size = np.abs(a[both] - b[both]), np.abs(b[both])
    if not difference.size:
        return (math.inf if lost else 0.0), 0.0
    largest, mean = _over(float(difference.max()), float(size.max())), _over(difference.mean(), size.mean())
    return (math.inf if lost else largest), mean


def _over(difference: float, size: float) -> float:
    if not difference:
        return 0.0
    return float(difference / size) if size else math.inf


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%" if math.isfinite(share) else "infinity"
