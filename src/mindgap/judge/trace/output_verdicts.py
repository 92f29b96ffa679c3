"""Decides each output's verdict, and the overall verdict where no operator is at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph.compare.verdict import Verdict
from mindgap.judge.oracle import Examined
from mindgap.judge.oracle.evaluation.formats import widen
from mindgap.judge.trace.subgraphs import Array

#: Whole runs of a platform: its outputs, in the graph's order, for each repetition.
Runs = Sequence[Sequence[Array]]


def verdicts_of_outputs(
    mine: Sequence[Examined],
    reference: Sequence[Examined],
    runs: Runs,
    theirs: Sequence[Array],
    undefined: Sequence[bool],
    internal: Sequence[bool],
    finding: Verdict | None,
) -> list[Verdict]:
    """A verdict per output. `undefined`: outputs that differ in elements which no standard defines; `internal`: those
    that no public function returns.

    An output beyond 16 σ, on either side, has the word of the finding; without a confirmed one it is calm.
    """
    words: list[Verdict] = []
    for index, (a, b) in enumerate(zip(mine, reference, strict=True)):
        if all(same_bits(run[index], theirs[index]) for run in runs):
            words.append("identical")
        elif internal[index] and not (_within_rounding(a) and _within_rounding(b)):
            words.append("internal")
        elif finding is not None and (a.kind != "calm" or b.kind != "calm"):
            words.append(finding)
        elif a.ill or b.ill:
            words.append("ill_conditioned")
        else:
            words.append("undefined" if undefined[index] else "rounding")
    return words


def _within_rounding(one: Examined) -> bool:
    return one.kind == "calm" and not one.silent


def overall_verdict(words: Sequence[Verdict]) -> Verdict:
    """The verdict on outputs that hold no finding.

    `ill_conditioned` only where that is all there is to say: no output that differs is well-conditioned. Otherwise
    what explains those that are, `undefined` before `internal` before `rounding`.
    """
    if "ill_conditioned" in words and "rounding" not in words:
        return "ill_conditioned"
    if "undefined" in words:
        return "undefined"
    return "internal" if "internal" in words else "rounding"


def note_on_ill_conditioned(words: Sequence[Verdict]) -> str:
    """A note on ill-conditioned outputs with a calm verdict; empty where there are none."""
    count = words.count("ill_conditioned")
    if not count:
        return ""
    return f"; {count} of {len(words)} outputs are ill-conditioned, and no operator on the way to them errs by itself"


def worst_of_runs(runs: Sequence[Sequence[Examined]]) -> list[Examined]:
    """For each output, the repetition that is furthest off."""
    order = {"calm": 0, "discrepant": 1, "exceptional": 2, "structural": 3}
    return [max(outputs, key=lambda e: (order[e.kind], e.worst)) for outputs in zip(*runs, strict=True)]


def public_only(examined: Sequence[Examined], internal: Sequence[bool]) -> list[Examined]:
    """The outputs with internal ones counted as calm, for the search for a culprit."""
    return [Examined("calm") if hidden else one for one, hidden in zip(examined, internal, strict=True)]


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays have the same dtype, shape and bytes."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.array_equal(a.ravel().view(np.uint8), b.ravel().view(np.uint8)))


def differs_in(mask: torch.Tensor | None, ours: Array, theirs: Array) -> bool:
    """Whether some element differs where the mask holds; NaN equals NaN."""
    if mask is None or ours.shape != tuple(mask.shape) or theirs.shape != tuple(mask.shape):
        return False
    x, y = widen(to_torch(ours)), widen(to_torch(theirs))
    return bool(((x != y) & ~((x != x) & (y != y)) & mask).any())


def undefined_outputs(
    numbers: Sequence[int], tainted: Mapping[int, torch.Tensor], ours: Sequence[Array], theirs: Sequence[Array]
) -> list[bool]:
    """For each output (by its value number), whether it differs in tainted elements."""
    return [differs_in(tainted.get(n), a, b) for n, a, b in zip(numbers, ours, theirs, strict=True)]
