"""Makes the fixed gradient that is passed to an output when a graph is run backward."""

from __future__ import annotations

import math
from functools import lru_cache

import torch

#: Numerators of the cotangent, over 16: odd, so never zero, and five bits, so exact in every float dtype but float8.
_PERIOD = 17
_STEP = 37


def cotangent(output: torch.Tensor) -> torch.Tensor:
    """Returns the fixed gradient fed into an output: element k (row-major) is (2·(37k mod 17) − 17) / 16.

    Ones would test less: against ones, the gradient of a softmax or a normalisation is zero up to rounding.
    """
    return cotangent_of(tuple(output.shape), output.dtype, str(output.device))


@lru_cache(maxsize=64)
def cotangent_of(shape: tuple[int, ...], dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """Returns the cotangent for an output of this shape and dtype."""
    index = torch.arange(math.prod(shape), dtype=torch.int64)
    return ((2 * (index * _STEP % _PERIOD) - _PERIOD).double() / 16).to(dtype).reshape(shape).to(device)
