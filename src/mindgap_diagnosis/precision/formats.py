"""Rounds values in float64 to the formats that operators are lowered to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Final

import torch

from mindgap.graph import Graph
from mindgap.judge.oracle.evaluation.formats import FORMATS, rounded
from mindgap_diagnosis.precision.candidates import Candidates
from mindgap_diagnosis.precision.noise import Lower

_STEPS: Final = 255


def _as_float(dtype: str, value: torch.Tensor, weight: bool) -> torch.Tensor:
    return rounded(value.to(torch.float32).to(torch.float64), dtype)


def _as_int8(value: torch.Tensor, weight: bool) -> torch.Tensor:
    """Whole steps: of a weight between ± its largest magnitude, of others between their extremes, zero among them.
    One scale for the whole tensor, as `quantize_static` chooses by default."""
    finite = torch.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0)
    most = finite.abs().max() if finite.numel() else torch.zeros(())
    low, high = (-most, most) if weight else (finite.min().clamp_max(0), finite.max().clamp_min(0))
    step = (high - low) / _STEPS
    return torch.where(step > 0, torch.round(value / step.clamp_min(1e-300)) * step, value)


def out_of_range(graph: Graph, of: Candidates, to: str) -> set[int]:
    """Returns the operators with a number among their arguments that a float format cannot hold: PyTorch refuses to
    fill a float16 tensor with -3.4e38."""
    largest = FORMATS[to].largest
    return {
        of.owner[index]
        for index, node in enumerate(graph.nodes)
        for arg in (*node.args, *(value for _, value in node.kwargs))
        if isinstance(arg, float) and largest < abs(arg) < math.inf and of.owner[index] >= 0
    }


#: How values are rounded, by the format that operators are lowered to.
LOWER: Final[Mapping[str, Lower]] = {
    "float16": partial(_as_float, "float16"),
    "bfloat16": partial(_as_float, "bfloat16"),
    "int8": _as_int8,
}
