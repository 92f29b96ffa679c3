"""Widens replays at operators with flat parts or jumps, where a few replays show too little error.

`relu` at -3 σ gives zero in every replay, so that their spread says that nothing can move there; but a platform may err
by 16 σ before that is more than rounding. So each replay also asks what the operator would give 16 of the replay's
errors away, to one side or the other, and takes that part of the answer which makes the limit of 16 σ reach it. On the
straight parts of the operator this is no more than the replay's own error, and nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from mindgap.judge.oracle.evaluation.float64 import BoundCall, evaluate
from mindgap.judge.oracle.evaluation.formats import is_real
from mindgap.judge.oracle.examination import SIGMAS

#: How much of a jump a replay takes that meets it, so that those which do (a third, far out) make a σ of 1/16 of it.
_OF_A_JUMP: Final = 0.25


def is_non_smooth(call: BoundCall) -> bool:
    """Whether replays of this call see too little."""
    spec = call.node.outputs[0] if len(call.node.outputs) == 1 else None
    return spec is not None and is_real(spec.dtype) and call.traits.non_smooth != ""


def with_distant_operands(
    call: BoundCall,
    args: list[Any],
    kwargs: Mapping[str, Any],
    result: Any,
    clean: Mapping[int, Any],
    base: Any,
    side: int,
) -> Any:
    """A replay's result, moved where its error, 16 times as large, would have moved it.

    `args`, `kwargs`, `result`: the replay's. `clean`: S's values by number; `base`: the exact result on them. `side`: 1
    for where the error points, -1 for the opposite (rounded errors may all point one way). Tensors are float64.
    """
    first, named = call.bind(clean)
    jumps = call.traits.non_smooth == "jumps"
    moving = {call.traits.jumps_at} if jumps else range(len(args))
    times = side * SIGMAS
    far = [
        _far(a, b, times) if position in moving else a for position, (a, b) in enumerate(zip(args, first, strict=True))
    ]
    (reached,) = evaluate(call, far, {name: a if jumps else _far(a, named[name], times) for name, a in kwargs.items()})
    if jumps:
        step = _OF_A_JUMP * (reached - result)
        return torch.where(torch.isfinite(step) & (step != 0), result + step, result)
    step = (reached - base) / SIGMAS
    return torch.where(step.abs() > (result - base).abs(), base + step, result)


def _far(moved: Any, clean: Any, times: float) -> Any:
    """Moves an operand to `times` its distance from the value of the stepwise shadow.

    An element stays where it was if it is not finite, or if the moved one is not.
    """
    if not isinstance(moved, torch.Tensor) or not moved.is_floating_point() or moved.shape != clean.shape:
        return moved
    far = clean + times * (moved - clean)
    return torch.where(torch.isfinite(far), far, moved)
