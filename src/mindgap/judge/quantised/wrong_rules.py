"""Recognises quantised values that follow another rule of rounding, saturation or encoding than their own.

Each rule is computed on the exact quotients. Where it gives every element of what a platform gave, and the format's own
does not, a finding names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch

from mindgap.judge.quantised.values import QuantisedValue

Tensor = torch.Tensor
#: How far from a border the exact quotient may lie on the wrong side, in steps: rules differ by more.
_NEAR: Final = 2.0**-6
#: The share of elements that a rule gives for the exact quotients themselves.
_MOST: Final = 0.9
#: The share of elements that a rule gives, and of the wrong ones that it may leave.
_NEARLY_ALL: Final = 0.99
_LEFT: Final = 0.02
#: Other rules of rounding than half to even.
ROUNDINGS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "as if halves were rounded away from zero, not to even": lambda x: x.sign() * (x.abs() + 0.5).floor(),
    "as if halves were rounded up, not to even": lambda x: (x + 0.5).floor(),
    "as if halves were rounded down, not to even": lambda x: (x - 0.5).ceil(),
    "as if cut off toward zero, not rounded": torch.trunc,
    "as if rounded down": torch.floor,
    "as if rounded up": torch.ceil,
}
#: Encodings that makers give the results of functions with a known range, for any model: scale, zero point.
_ENCODINGS: Final = tuple(
    (2.0**-bits, zero) for bits, zeros in ((7, (0, 128)), (8, (0, -128)), (15, (0, 32768)), (16, (0, -32768)))
    for zero in zeros
)  # fmt: skip


def named_rule(value: QuantisedValue, x: Tensor, zero: Tensor, got: Tensor, within: Tensor, bad: Tensor) -> str:
    """Returns the rule that gives every element, or all but a few, in words; empty where none is known.

    `x`: the exact quotients in steps, without the zero point. `got`: integers, in float64. `within`: how far from the
    exact quotients a right implementation may round. `bad`: the elements that are not right.
    """
    near = torch.clamp_max(within, _NEAR)

    def cut_off(steps: Tensor) -> Tensor:
        return torch.clamp(steps, value.low, value.high)

    def given(function: Callable[[Tensor], Tensor]) -> bool:
        """Whether the function gives each element for a quotient that is next to the exact one, and most for that. One
        in a hundred may differ, where the rule explains the wrong ones."""
        if (got == function(x)).to(torch.float64).mean() < _MOST:
            return False
        ends = [function(x + side * near) for side in (-1, 1)]
        low, high = torch.minimum(*ends), torch.maximum(*ends)
        others = int(((got < low) | (got > high)).sum())
        return others <= (1 - _NEARLY_ALL) * got.numel() and others <= _LEFT * int(bad.sum())

    for phrase, rounding in ROUNDINGS.items():
        if given(lambda y, f=rounding: cut_off(f(y) + zero)):
            return phrase
    width, whole = value.high - value.low + 1, torch.round(x) + zero
    wraps = not torch.equal(cut_off(whole), whole)
    if wraps and given(lambda y: torch.remainder(torch.round(y) + zero - value.low, width) + value.low):
        return "as if integers wrapped at the limits, not saturated"
    inside = (got > value.low) & (got < value.high)
    if bool(inside.any()):
        off = (got - torch.round(x) - zero)[inside].median()
        if off != 0 and given(lambda y: cut_off(torch.round(y) + zero + off)):
            return f"every element is off by {off.item():g}, as with another zero point"
    return ""


def other_encoding(value: QuantisedValue, x: Tensor, zero: Tensor, got: Tensor, scale: Tensor, limit: Tensor) -> str:
    """Returns the encoding that was put in place of the model's, in words: one that functions of a known range get.

    `x`, `zero`, `got`: as of `named_rule`. `scale`: what the quotients were divided by. `limit`: how far beyond half a
    step float16 leads.
    """
    if scale.numel() != 1 or zero.numel() != 1:
        return ""
    for other, point in _ENCODINGS:
        if other == float(scale) and point == float(zero):
            continue
        moved = torch.clamp(x * scale / other + point, value.low, value.high)
        if bool(((got - moved).abs() <= 0.5 + limit).all()):
            return (
                f"as if the model had the scale {other:g} and the zero point {point}, and not {float(scale):.6g} and "
                f"{float(zero):g}"
            )
    return ""
