"""Among operators that a platform gets wrong, the one that breaks an output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.oracle import Oracle, OracleError
from mindgap.trace.cuts import Array
from mindgap.trace.lockstep import Confirmed


def breaking(oracle: Oracle, confirmed: Sequence[Confirmed], broken: bool) -> Confirmed | None:
    """The first confirmed cut whose values, carried on by exact arithmetic, push an output past 16 σ.

    `broken`: an output is past it. Where it is but no single cut suffices, the cut with the largest error is taken;
    where none is, the first.
    """
    if not broken:
        return next(iter(confirmed), None)
    for one in confirmed:
        if breaks(oracle, one.arrays):
            return one
    return max(confirmed, key=lambda c: c.worst, default=None)


def breaks(oracle: Oracle, arrays: Mapping[int, Array]) -> bool:
    """Whether these values, put in place of S's and carried downstream, make any output a candidate."""
    imposed = {number: to_torch(array) for number, array in arrays.items()}
    for number, tensor in imposed.items():
        if tensor.shape != oracle.step.values[number].shape:
            return True
    try:
        outputs = oracle.carried(imposed)
    except (OracleError, RuntimeError, IndexError):
        # What follows cannot even be computed from them.
        return True
    return any(oracle.examine_value(n, _declared(oracle, n, value)).kind != "calm" for n, value in outputs.items())


def _declared(oracle: Oracle, number: int, value: Any) -> Array:
    return to_numpy(value.to(oracle.step.values[number].dtype))
