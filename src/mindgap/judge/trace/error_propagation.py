"""Carries wrong values of single operators to the outputs, to find the operator that breaks one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.judge.oracle import Oracle, OracleError, examine_value_cheaply
from mindgap.judge.trace.output_verdicts import same_bits
from mindgap.judge.trace.single_operators import Confirmed
from mindgap.judge.trace.subgraphs import Array


def breaking(
    oracle: Oracle, confirmed: Sequence[Confirmed], broken: bool, internal: Collection[int] = ()
) -> Confirmed | None:
    """The first confirmed cut whose values, carried on by exact arithmetic, push an output past 16 σ.

    `broken`: an output is past it. Where it is but no single cut suffices, the cut with the largest error is taken, of
    those that change an output if there are any; where none is, the first. A cut that gets only internal values wrong,
    or only their dtype, is at fault only if it breaks an output.
    """
    public = [one for one in confirmed if not one.internal and not one.retyped]
    if not broken:
        return next(iter(public), None)
    for one in confirmed:
        if breaks(oracle, one.arrays, internal):
            return one
    worst_first = sorted(public, key=lambda one: one.worst, reverse=True)
    return next((one for one in worst_first if reaches(oracle, one.arrays, internal)), next(iter(worst_first), None))


def breaks(oracle: Oracle, arrays: Mapping[int, Array], internal: Collection[int] = ()) -> bool:
    """Whether these values, put in place of S's and carried downstream, make any output a candidate, `internal` ones
    apart."""
    outputs = _carried(oracle, arrays, internal)
    return outputs is None or any(
        examine_value_cheaply(oracle, n, value).kind != "calm" for n, value in outputs.items()
    )


def reaches(oracle: Oracle, arrays: Mapping[int, Array], internal: Collection[int] = ()) -> bool:
    """Whether these values, put in place of S's and carried downstream, change a bit of any output, `internal` ones
    apart."""
    outputs = _carried(oracle, arrays, internal)
    return outputs is None or not all(same_bits(to_numpy(oracle.step.values[n]), v) for n, v in outputs.items())


def _carried(oracle: Oracle, arrays: Mapping[int, Array], internal: Collection[int]) -> dict[int, Array] | None:
    """The outputs that follow from these values, `internal` ones apart. None where nothing can follow from them."""
    imposed: dict[int, torch.Tensor] = {}
    for number, array in arrays.items():
        spec, shape = oracle.graph.values[number], oracle.step.values[number].shape
        if array.shape == shape:
            imposed[number] = to_torch(array)
        elif number not in internal and (spec is None or array.shape != spec.shape):
            return None
    try:
        outputs = oracle.carried(imposed)
    except (OracleError, RuntimeError, IndexError):
        # What follows cannot even be computed from them.
        return None
    return {n: _declared(oracle, n, value) for n, value in outputs.items() if n not in internal}


def _declared(oracle: Oracle, number: int, value: Any) -> Array:
    return to_numpy(value.to(oracle.step.values[number].dtype))
