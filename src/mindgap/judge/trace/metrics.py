"""Measures how far the outputs of a platform are from the reference's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, cast

import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph.compare.metrics import Metrics, measure, to_json
from mindgap.graph.compare.profiles import passes
from mindgap.graph.compare.row_metrics import RowMetrics
from mindgap.judge.oracle import Oracle, OracleError, positions
from mindgap.judge.oracle.evaluation.formats import widen
from mindgap.judge.oracle.float_classes import all_finite
from mindgap.judge.trace.output_verdicts import same_bits
from mindgap.judge.trace.subgraphs import Array

#: What is no distance between positions.
_DISTANCES: Final = frozenset({"max_abs", "max_rel", "cosine", "mad"})


def row_metrics(
    ours: Sequence[Array], theirs: Sequence[Array], oracle: Oracle | None, internal: Sequence[bool] = ()
) -> RowMetrics:
    """Metrics of the output that differs most, and counts over all outputs.

    `relative_error` covers all elements of float outputs that are finite on both sides. It is None where there are none
    or the reference is zero. `error_ratio` covers all finite float elements. It is None without a shadow or where the
    reference has no error; below 1 the platform is closer to float64 than the reference.

    Positions (the indices of a sort, a top-k, a max-pool) and `internal` outputs are the worst output only where no
    other differs. Positions have no distances: only elements that differ are counted.
    """
    pairs = list(zip(theirs, ours, strict=False))
    measured = [measure(reference, other) for reference, other in pairs]
    numbers = () if oracle is None else oracle.graph.outputs
    position_values = frozenset[int]() if oracle is None else positions(oracle.graph)
    position_outputs = {i for i, number in enumerate(numbers) if number in position_values}
    aside = position_outputs | {i for i, hidden in enumerate(internal) if hidden}
    worst = max(range(len(pairs)), key=lambda i: _severity(measured[i], i in aside), default=None)
    metrics: dict[str, Any] = {} if worst is None else dict(to_json(measured[worst]))
    if worst in position_outputs:
        metrics.update(dict.fromkeys(_DISTANCES & metrics.keys()))
    metrics["worst_output"] = worst
    metrics["outputs_differing"] = sum(1 for m in measured if not isinstance(m, Metrics) or m.n_differing > 0)
    metrics["outputs"] = len(pairs)
    metrics["relative_error"] = _relative_error(pairs)
    metrics["error_ratio"] = _error_ratio(ours, theirs, oracle) if oracle is not None else None
    return cast("RowMetrics", metrics)


def fixed_tolerances(ours: Sequence[Array], theirs: Sequence[Array]) -> dict[str, bool]:
    """Whether each fixed tolerance of the literature passes all outputs."""
    pairs = list(zip(theirs, ours, strict=False))
    names: tuple[Literal["paper", "assert_close"], ...] = ("paper", "assert_close")
    return {name: all(passes(name, a, b) for a, b in pairs) for name in names}


def _relative_error(pairs: Sequence[tuple[Array, Array]]) -> float | None:
    gap = scale = 0.0
    for reference, other in pairs:
        if reference.shape != other.shape or reference.dtype != other.dtype:
            continue
        a, b = widen(to_torch(reference)), widen(to_torch(other))
        if a.is_floating_point() or a.is_complex():
            gap += _square(a - b, a, b)
            scale += _square(a, a, b)
    return (gap / scale) ** 0.5 if scale > 0 else None


def _square(x: torch.Tensor, *finite: torch.Tensor) -> float:
    """The sum of |x|² over the elements at which all the others are finite."""
    if not all(map(all_finite, finite)):
        x = x[torch.stack([torch.isfinite(other) for other in finite]).all(0)]
    return float(x.abs().square().sum())


def _severity(measured: object, aside: bool) -> tuple[bool, bool, float, float]:
    """Orders outputs: those that differ first, of these those that are not `aside`."""
    if not isinstance(measured, Metrics):
        return (True, not aside, 2.0, 0.0)
    mismatched, differs = measured.nan_mismatch + measured.inf_mismatch, measured.n_differing > 0
    if mismatched:
        return (True, not aside, 1.0, float(mismatched))
    return (differs, not aside, 0.0, measured.max_rel or float(differs))


def _error_ratio(ours: Sequence[Array], theirs: Sequence[Array], oracle: Oracle) -> float | None:
    mine = reference = 0.0
    for number, a, b in zip(oracle.graph.outputs, ours, theirs, strict=False):
        try:
            exact = widen(oracle.wide[number])
        except OracleError:
            return None
        same = same_bits(a, b)
        x = widen(to_torch(a))
        y = x if same else widen(to_torch(b))
        if not (exact.is_floating_point() or exact.is_complex()) or x.shape != exact.shape or y.shape != exact.shape:
            continue
        error = _square(y - exact, y, x, exact)
        mine += error if same else _square(x - exact, x, y, exact)
        reference += error
    return (mine / reference) ** 0.5 if reference > 0 else None
