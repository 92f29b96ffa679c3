"""The backward pass of a graph that asks for one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

#: Numerators of the cotangent, over 16: odd, so never zero, and five bits, so exact in every float dtype but float8.
_PERIOD = 17
_STEP = 37


def cotangent(output: torch.Tensor) -> torch.Tensor:
    """The fixed gradient fed into an output: element k (row-major) is (2·(37k mod 17) − 17) / 16.

    Ones would do less: the gradient of a softmax or a normalisation against ones is zero but for rounding.
    """
    return _cotangent(tuple(output.shape), output.dtype, str(output.device))


@lru_cache(maxsize=64)
def _cotangent(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    count = 1
    for size in shape:
        count *= size
    index = torch.arange(count, dtype=torch.int64)
    return ((2 * (index * _STEP % _PERIOD) - _PERIOD).double() / 16).to(dtype).reshape(shape).to(device)


def as_leaves(tensors: Sequence[torch.Tensor], wanted: Sequence[int]) -> list[torch.Tensor]:
    """The same tensors, those numbered in `wanted` as leaves that ask for a gradient (memory is shared)."""
    found = list(tensors)
    for index in wanted:
        found[index] = found[index].detach().requires_grad_()
    return found


def gradients(outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """d(Σ cotangent·output)/d(leaf) for every leaf; zeros where no output depends on it.

    Outputs that autograd does not follow (integers, detached values) do not take part.
    """
    roots = [output for output in outputs if output.requires_grad]
    if not roots:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(roots, leaves, [cotangent(r) for r in roots], materialize_grads=True)
    return list(found)
