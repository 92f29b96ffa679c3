"""Rounding within an operator: each of the operators that it is composed of gives a result with an error.

A perturbation of the operands alone does not show it. The cosine of two vectors of one element is 1 for any operands,
and yet `1 - cos` in float32 may be 6e-8, because the division rounds.
"""

from __future__ import annotations

from typing import Any

import torch

from mindgap.aten.tape import flatten_result
from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode
from mindgap.graph.operators import traits


class StepNoise(TorchDispatchMode):
    """Multiplies each float that an inner operator computes by 1 ± `scale`·√K, K the terms per result.

    `whole`: the packet of the operator under test, whose own result is left alone. So is what views, moves or makes
    data. The signs come from `generator`. `steps`: how many results it has multiplied.
    """

    def __init__(self, whole: str, scale: float, generator: torch.Generator) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self._whole = whole
        self._scale = scale
        self._generator = generator
        self.steps = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result: Any = func(*args, **(kwargs or {}))
        packet = str(func.overloadpacket.__name__).removesuffix("_")
        known = traits(packet)
        read = [t for t in args if isinstance(t, torch.Tensor)]
        if packet == self._whole or not read or func.is_view or known.moves_data or known.hands_on or known.casts:
            return result
        most = max(t.numel() for t in read)
        for each in flatten_result(result):
            if isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex()):
                reach = self._scale * max(1.0, most / max(each.numel(), 1)) ** 0.5
                signs = torch.empty(each.shape, dtype=torch.float64).bernoulli_(0.5, generator=self._generator) * 2 - 1
                each.mul_(1 + reach * signs)
                self.steps += 1
        return result
