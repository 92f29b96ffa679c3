"""Decides who is wrong: the platform, the reference, or undecided."""

from __future__ import annotations

from typing import Any

import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph.compare.verdict import Blame
from mindgap.judge.oracle import Oracle, local_expectation
from mindgap.judge.oracle.evaluation.formats import is_real, rounded, widen
from mindgap.judge.trace.independent import second_opinion
from mindgap.judge.trace.single_operators import Confirmed

#: Of the disputed elements, the share that must agree with the independent formulation to settle the matter.
AGREEMENT = 0.99


def blamed(
    oracle: Oracle, confirmed: Confirmed, on_platform: bool, also_other: bool, decomposes: bool = False,
    failures: list[str] | None = None,
) -> Blame:  # fmt: skip
    """The side to blame.

    `confirmed` was found on the platform (`on_platform`) or on the reference; `also_other`: the other errs there too.
    For one operator in dispute, blame is checked against an independent implementation. Where that agrees with the
    accused and not with the shadow, the other side is at fault. Where it agrees with neither, or both sides err, it is
    undecided. `decomposes`: the accused compiles PyTorch's own decompositions, so that agreement with those is no
    evidence. `failures` gets a sentence for each formulation that raised, and one where there is none.
    """
    accused: Blame = "platform" if on_platform else "reference"
    other: Blame = "reference" if on_platform else "platform"
    if also_other:
        return "undecided"
    if len(confirmed.nodes) != 1 or not confirmed.arrays or confirmed.kind == "structural":
        return accused
    opinion = second_opinion(oracle, confirmed.nodes[0], decompositions=not decomposes, failures=failures)
    if opinion is not None:
        return _sided(oracle, confirmed, opinion, accused, other)
    opinion = second_opinion(oracle, confirmed.nodes[0]) if decomposes else None
    if opinion is not None:
        return _sided(oracle, confirmed, opinion, accused, "undecided")
    if failures is not None and not failures:
        failures.append("no independent implementation of the operator is known")
    return accused


def _sided(oracle: Oracle, confirmed: Confirmed, opinion: list[Any], accused: Blame, otherwise: Blame) -> Blame:
    with_accused, with_shadow = _sides(oracle, confirmed, opinion)
    if with_shadow >= AGREEMENT:
        return accused
    return otherwise if with_accused >= AGREEMENT else "undecided"


def _sides(oracle: Oracle, confirmed: Confirmed, opinion: list[Any]) -> tuple[float, float]:
    """Shares of the disputed elements where the opinion agrees with the accused, and with the shadow."""
    node = confirmed.nodes[0]
    expected = local_expectation(oracle, node)
    counted = accused = shadow = 0
    for number, array in confirmed.arrays.items():
        slot = number - expected.first
        hard, third = expected.hard[slot], opinion[slot] if slot < len(opinion) else None
        if hard is None or not isinstance(third, torch.Tensor):
            continue
        verdict = expected.examine(slot, array)
        bad = verdict.bad if verdict.bad is not None and bool(verdict.bad.any()) else None
        if bad is None:
            continue
        got, step = widen(to_torch(array)), widen(hard.step)
        # The opinion is in float64: of a cast only its rounding decides who is right.
        third = rounded(widen(third), hard.dtype) if is_real(hard.dtype) else widen(third)
        # Half the way is enough to take a side: the two differ by more than any rounding.
        nearer_accused = _near(third, got, step)
        nearer_shadow = _near(third, step, got)
        counted += int(bad.sum())
        accused += int((nearer_accused & bad).sum())
        shadow += int((nearer_shadow & bad).sum())
    return (accused / counted, shadow / counted) if counted else (0.0, 1.0)


def _near(third: torch.Tensor, candidate: torch.Tensor, rival: torch.Tensor) -> torch.Tensor:
    if not (third.is_floating_point() or third.is_complex()):
        return third == candidate
    same_class = _same(third, candidate)
    closer = (third - candidate).abs() < 0.25 * (candidate - rival).abs()
    return (
        same_class
        | (closer & candidate.isfinite() & third.isfinite())
        | (third.isfinite() & candidate.isfinite() & ~rival.isfinite())
    )


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (torch.isnan(a) & torch.isnan(b))
