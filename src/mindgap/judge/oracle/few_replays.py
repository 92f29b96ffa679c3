"""Proves outputs calm, or far off, from 1, 2 or 4 replays instead of 8.

`Oracle.examine_value` measures σ over 8 replays. Most outputs are far inside their limits, and one replay shows it.
The proof that such an output is calm with 8 replays too:

- *Within 16 σ.* σ² is a mean of squares, so that k replays bound it from below: σ₈² ≥ (k/8)·σₖ². The floors of
  `expect_floor` grow with σ. What lies within the limit of the bound lies within the limit of σ₈.
- *The operator's own error.* Each replay moves an output by its operator's typical error t, at a random sign, after
  all that came from upstream, and rounds once. A quarter of what the rounding leaves of t is below any σ that is well
  measured. Where eight replays give less, they cancelled t by chance, and the estimate is what is wrong.
- *Classes and discrete values.* More replays only add to what is allowed.
- *Not ill-conditioned.* This needs a bound from above, which no number of replays gives. For half of the elements, σₖ
  must be smaller than what makes an output ill-conditioned, and by a factor: 1024 for one replay, 64 for two, 8 for
  four. σ₈/σₖ passes it with a probability below 0.001 even where all elements move together, as a normal variable.

By the same factor an output is proven to be beyond 16 σ₈: most of its elements are beyond 16 σₖ times the factor. That
holds where σ is of smooth operators: a jump is met by some replays and not by others.

An output that is proven neither is left to all replays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from mindgap.aten.tensors import to_torch
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real
from mindgap.judge.oracle.examination import Examined, Expectation, examine, ill_conditioned
from mindgap.judge.oracle.oracle import FEW, Oracle

#: Replays after which a proof is tried, and by how much σ may still grow.
STEPS: Final = ((1, 1024.0), (2, 64.0), (4, 8.0))


def examine_cheaply(oracle: Oracle, outputs: Sequence[Any]) -> list[Examined]:
    """A platform's outputs (numpy, in graph order) as `Oracle.examine` sees them, with few replays for calm ones.

    `worst` of an output proven calm is an upper bound.
    """
    return [examine_value_cheaply(oracle, n, array) for n, array in zip(oracle.graph.outputs, outputs, strict=True)]


def examine_value_cheaply(oracle: Oracle, number: int, array: Any) -> Examined:
    """One output, by its value number."""
    for count, growth in STEPS:
        if oracle.replays.count >= FEW:
            break
        got = to_torch(array)
        verdict = _proven_calm(oracle, number, got, count, growth) or _proven_far(oracle, number, got, count, growth)
        if verdict is not None:
            return verdict
    return oracle.examine_value(number, array)


def is_calm(oracle: Oracle, number: int, array: Any) -> bool:
    """Whether an output is within what rounding allows, however weak that is for an ill-conditioned one."""
    for count, _ in STEPS:
        if oracle.replays.count >= FEW:
            break
        if _proven_calm(oracle, number, to_torch(array), count, None) is not None:
            return True
    return oracle.examine_value(number, array).kind == "calm"


def _proven_calm(oracle: Oracle, number: int, got: torch.Tensor, count: int, growth: float | None) -> Examined | None:
    """Calm, or None where so many replays do not prove it, as where each of them has another shape.

    `growth`: by how much σ may still grow; None where an ill-conditioned output counts as calm.
    """
    expected = oracle.expectation(number, count)
    if got.shape != expected.step.shape:
        return None
    if is_real(expected.dtype):
        if number not in oracle.replays.squares or (growth is not None and ill_conditioned(expected, growth)):
            return None
        expected = replace(expected, sigma=_least_sigma(oracle, number, expected))
    verdict = examine(expected, got)
    if verdict.kind != "calm" or verdict.tainted:
        return None
    return replace(verdict, ill=False)


def _proven_far(oracle: Oracle, number: int, got: torch.Tensor, count: int, growth: float) -> Examined | None:
    """Beyond 16 σ, or None where so many replays do not prove it. The errors in σ are those of so many replays."""
    expected = oracle.expectation(number, count)
    if got.shape != expected.step.shape or not is_real(expected.dtype) or expected.tainted is not None:
        return None
    if oracle.narrows or oracle.jumps or ill_conditioned(expected, growth):
        return None
    verdict = examine(expected, got)
    if verdict.kind != "discrepant" or 2 * verdict.count <= got.numel():
        return None
    far = examine(replace(expected, sigma=growth * expected.sigma), got)
    return replace(verdict, ill=False) if far.kind == "discrepant" and 2 * far.count > got.numel() else None


def _least_sigma(oracle: Oracle, number: int, expected: Expectation) -> torch.Tensor:
    """What σ over 8 replays is at least, elementwise."""
    least = (oracle.replays.squares[number] / FEW).sqrt()
    own = oracle.step.typical.get(number)
    if own is None:
        return least
    fmt = FORMATS[expected.dtype]
    size = torch.nan_to_num(expected.step.abs(), posinf=0.0)
    left = (own.to(torch.float64) - fmt.u * size - fmt.u * fmt.tiny).clamp_min(0.0)
    return torch.maximum(least, left / 4)
