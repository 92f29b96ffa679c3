"""Adaptive search for the largest step that still works."""

from __future__ import annotations

from collections.abc import Callable

#: Steps that are tried one by one before the search doubles them.
_LINEAR = 4


def find_integer(works: Callable[[int], bool], most: int) -> int:
    """The largest n up to `most` for which `works(n)`, where `works` is true up to some n and false above it.

    `works(0)` is taken to be true. Small answers cost one call more than their value, large ones a logarithm of it.
    Where `works` is not monotone the answer is some n that works while n + 1 does not, or `most`.
    """
    for n in range(1, min(_LINEAR, most) + 1):
        if not works(n):
            return n - 1
    if most <= _LINEAR:
        return most
    low, high = _LINEAR, 2 * _LINEAR
    while high < most and works(high):
        low, high = high, 2 * high
    if high >= most:
        if works(most):
            return most
        high = most
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            low = middle
        else:
            high = middle
    return low
