"""Runs the backward pass of a graph that declares gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mindgap.aten.tensors import cotangent

__all__ = ["as_leaves", "cotangent", "gradients"]


def as_leaves(tensors: Sequence[torch.Tensor], differentiated: Sequence[int]) -> list[torch.Tensor]:
    """Makes the tensors numbered in `differentiated` leaves that require a gradient (memory is shared)."""
    found = list(tensors)
    for index in differentiated:
        found[index] = found[index].detach().requires_grad_()
    return found


def gradients(outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Computes d(Σ cotangent·output)/d(leaf) for every leaf; zeros if no output depends on it.

    Outputs that autograd does not follow (integers, detached values) do not take part.
    """
    roots = [output for output in outputs if output.requires_grad]
    if not roots:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(roots, leaves, [cotangent(r) for r in roots], materialize_grads=True)
    return list(found)
