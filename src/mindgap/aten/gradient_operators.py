"""Recognises operators that only a backward pass calls."""

from __future__ import annotations

from typing import Final

from mindgap.aten.operators import packet_of

#: Packets with `_backward` in their name that a public forward function calls: `torch.istft` calls `unfold_backward`.
#: A test in tests/aten measures them on PyTorch's operator samples.
CALLED_FORWARD: Final = frozenset({"unfold_backward"})


def is_gradient_operator(op: str) -> bool:
    """Returns whether no public forward function of PyTorch calls the operator (`aten.tanh_backward.default`)."""
    packet = packet_of(op)
    return "_backward" in packet and packet not in CALLED_FORWARD
