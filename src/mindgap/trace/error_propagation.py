"""Carries wrong values of single operators to the outputs, to find the operator that breaks one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.oracle import Oracle, OracleError
from mindgap.trace.single_operators import Confirmed
from mindgap.trace.subgraphs import Array


def breaking(
    oracle: Oracle, confirmed: Sequence[Confirmed], broken: bool, internal: Collection[int] = ()
) -> Confirmed | None:
    """The first confirmed cut whose values, carried on by exact arithmetic, push an output past 16 σ.

    `broken`: an output is past it. Where it is but no single cut suffices, the cut with the largest error is taken;
    where none is, the first. A cut that gets only internal values wrong is at fault only if it breaks an output.
    """
    public = [one for one in confirmed if not one.internal]
    if not broken:
        return next(iter(public), None)
    for one in confirmed:
        if breaks(oracle, one.arrays, internal):
            return one
    return max(public, key=lambda c: c.worst, default=None)


def breaks(oracle: Oracle, arrays: Mapping[int, Array], internal: Collection[int] = ()) -> bool:
    """Whether these values, put in place of S's and carried downstream, make any output a candidate, `internal` ones
    apart."""
    imposed: dict[int, torch.Tensor] = {}
    for number, array in arrays.items():
        spec, shape = oracle.graph.values[number], oracle.step.values[number].shape
        if array.shape == shape:
            imposed[number] = to_torch(array)
        elif number not in internal and (spec is None or array.shape != spec.shape):
            return True
    try:
        outputs = oracle.carried(imposed)
    except (OracleError, RuntimeError, IndexError):
        # What follows cannot even be computed from them.
        return True
    return any(
        oracle.examine_value(n, _declared(oracle, n, value)).kind != "calm"
        for n, value in outputs.items()
        if n not in internal
    )


def _declared(oracle: Oracle, number: int, value: Any) -> Array:
    return to_numpy(value.to(oracle.step.values[number].dtype))
