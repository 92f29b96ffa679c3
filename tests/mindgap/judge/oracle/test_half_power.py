"""Powers ±1/2 in float64, against C's own pow."""

from __future__ import annotations

import math

import pytest
import torch

from mindgap.judge.oracle.evaluation.float64 import half_power

SPECIAL = [-math.inf, -4.0, -0.0, 0.0, 5e-324, 0.25, 2.0, 1e300, math.inf, math.nan]


def by_c(base: float, exponent: float) -> float:
    """C's pow, whose domain error and pole are exceptions in Python."""
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.inf if base == 0 else math.nan


@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_half_powers_are_those_of_c(exponent: float) -> None:
    found = half_power("pow", [torch.tensor(SPECIAL, dtype=torch.float64), exponent], {})
    assert found is not None
    for base, got in zip(SPECIAL, found.tolist(), strict=True):
        wanted = by_c(base, exponent)
        assert (math.isnan(got) and math.isnan(wanted)) or got == pytest.approx(wanted, rel=1e-15), base
        assert math.isnan(wanted) or math.copysign(1, got) == math.copysign(1, wanted), base


@pytest.mark.parametrize("args", [[torch.ones(2), 2.0], [torch.ones(2), torch.tensor(0.5)], [0.5, torch.ones(2)]])
def test_other_powers_are_left_to_pytorch(args: list[object]) -> None:
    assert half_power("pow", args, {}) is None
