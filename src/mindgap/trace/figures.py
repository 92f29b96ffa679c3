"""The figures of a row: how far apart two sets of outputs are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from mindgap.aten.tensors import to_torch
from mindgap.compare.metrics import Metrics, measure, to_json
from mindgap.compare.profiles import passes
from mindgap.oracle import Oracle, OracleError, positions
from mindgap.oracle.classes import all_finite
from mindgap.oracle.precision import widen
from mindgap.trace.cuts import Array
from mindgap.trace.outputs import same_bits

#: What is no distance between positions.
_DISTANCES: Final = frozenset({"max_abs", "max_rel", "cosine", "mad"})


def figures(
    ours: Sequence[Array], theirs: Sequence[Array], oracle: Oracle | None, internal: Sequence[bool] = ()
) -> dict[str, Any]:
    """Metrics of the output that differs most, and over all outputs: `paper` and `assert_close` (whether each profile
    passes), `outputs_differing`, `worst_output`, `relative_error`, `error_ratio`.

    `relative_error`: root mean square of the difference over that of the reference, over all elements of float outputs
    that are finite on both sides; None where there are none or the reference is zero.

    `error_ratio`: root mean square error of the platform over that of the reference, both against W, over all finite
    float elements; None without a shadow or where the reference has no error. Below 1 the platform is the closer one.

    Positions (the indices of a sort, a top-k, a max-pool) and `internal` outputs are the worst output only where no
    other differs, and positions have no distances: they count elements that differ.
    """
    pairs = list(zip(theirs, ours, strict=False))
    measured = [measure(reference, other) for reference, other in pairs]
    numbers = () if oracle is None else oracle.graph.outputs
    spots = frozenset[int]() if oracle is None else positions(oracle.graph)
    places = {i for i, number in enumerate(numbers) if number in spots}
    aside = places | {i for i, hidden in enumerate(internal) if hidden}
    worst = max(range(len(pairs)), key=lambda i: _severity(measured[i], i in aside), default=None)
    found: dict[str, Any] = {} if worst is None else dict(to_json(measured[worst]))
    if worst in places:
        found.update(dict.fromkeys(_DISTANCES & found.keys()))
    found["worst_output"] = worst
    found["outputs_differing"] = sum(1 for m in measured if not isinstance(m, Metrics) or m.n_differing > 0)
    found["outputs"] = len(pairs)
    found["paper"] = all(passes("paper", a, b) for a, b in pairs)
    found["assert_close"] = all(passes("assert_close", a, b) for a, b in pairs)
    found["relative_error"] = _relative_error(pairs)
    found["error_ratio"] = _error_ratio(ours, theirs, oracle) if oracle is not None else None
    return found


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
