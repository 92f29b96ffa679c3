"""Compares the outputs of two graphs bit by bit."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mindgap.aten.tape import Tape
from mindgap.graph import Graph


def differing_outputs(graph: Graph, other: Graph, inputs: Sequence[torch.Tensor]) -> list[int]:
    """Runs both graphs on the CPU and returns the positions of the outputs that differ in a bit."""
    pairs = zip(Tape(graph).run(inputs), Tape(other).run(inputs), strict=True)
    return [position for position, (one, two) in enumerate(pairs) if not _same(one, two)]


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Returns whether dtype, shape and values are equal; NaN equals NaN, and +0 differs from -0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.is_complex():
        return _same(torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj()))
    if not one.is_floating_point():
        return torch.equal(one, other)
    a, b = one.double(), other.double()
    alike = (a == b) & (torch.signbit(a) == torch.signbit(b)) | (a.isnan() & b.isnan())
    return bool(alike.all())
