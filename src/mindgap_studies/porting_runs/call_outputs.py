"""Compares the outputs of one call on a target with those on the source: which differences lose a function."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final, cast

import numpy as np

from mindgap.graph import Array

#: Relative and absolute difference that the frameworks' own tests allow, by dtype.
_TOLERANCES: Final = {
    "float64": (1e-7, 1e-7), "complex128": (1e-7, 1e-7), "float16": (1e-3, 1e-3), "bfloat16": (1.6e-2, 1e-2),
}  # fmt: skip
_TOLERANCE: Final = (1.3e-6, 1e-5)
#: Differences up to so many times what eight units in the last place of the arguments move are not findings, as in
#: `own_path`.
_MOVED: Final = 16
#: Results that are so many times as far from float64 as the source's worst element are not findings.
_AS_EXACT: Final = 4
_PATH: Final = re.compile(r"(/[\w.+-]+){3,}")


def compared(
    expected: Sequence[Array], found: Sequence[Array], random: bool, varies: bool,
    moved: Callable[[], Sequence[Array]], exact: Callable[[], Sequence[Array]],
) -> tuple[str, str]:  # fmt: skip
    """Returns the reason why outputs are lost, or an empty one, and what is said of it.

    Other numbers, dtypes or shapes of outputs are a type failure. Values may differ by the tolerance of the
    frameworks' tests, or 16 times what the source moves by where the arguments move by eight units in the last place
    (`moved`: the source's outputs there). So may values that are at most 4 times as far from those in float64
    (`exact`) as the source's own. Values of a function that is `random` by its documentation are not compared unless
    they are the same bits, and never where they vary from call to call (`varies`): the reason is `form only`.
    """
    if len(expected) != len(found):
        return "type failure", f"{len(found)} outputs, and the source gives {len(expected)}"
    worst, unjudged = "", False
    nearby: Sequence[Array] | None = None
    for place, (left, right) in enumerate(zip(expected, found, strict=True)):
        if left.shape != right.shape or left.dtype != right.dtype:
            return "type failure", f"output {place} is {form_of(right)}, and the source's is {form_of(left)}"
        if varies or (random and not same_bits(left, right)):
            unjudged = True
            continue
        if same_bits(left, right):
            continue
        if left.dtype.kind not in "biufc" and left.dtype.name not in ("bfloat16", "float16"):
            return "precision", f"output {place} has other values ({left.dtype})"
        limit = _limit(left)
        distance = _distance(left, right)
        if bool(np.all(distance <= limit)):
            continue
        if nearby is None:
            try:
                nearby = moved()
            except (Exception, SystemExit) as error:  # the source itself may not take the moved arguments
                return "not compared", f"output {place} differs; the source with moved arguments: {line_of(error)}"
        if len(nearby) != len(expected) or nearby[place].shape != left.shape:
            return "not compared", f"output {place} differs, and has another shape where the arguments move"
        # Elsewhere in the output, values move by as much: one step of one element says little of it.
        moves = _distance(left, nearby[place])
        wide = np.maximum(limit, _MOVED * (moves if left.dtype.kind in "iub" else _largest_finite(moves)))
        if bool(np.all(distance <= wide)) or _as_exact(left, right, place, wide, exact):
            continue
        at = int(np.argmax(np.where(distance <= wide, -1.0, np.nan_to_num(distance, nan=math.inf, posinf=math.inf))))
        worst = worst or (
            f"output {place} is {right.reshape(-1)[at]}, and the source's is {left.reshape(-1)[at]}, at element {at}"
        )
    if worst:
        return "precision", worst
    return ("form only", "the values are random or change between calls") if unjudged else ("", "")


def _as_exact(left: Array, right: Array, place: int, limit: Array, exact: Callable[[], Sequence[Array]]) -> bool:
    """Whether the target's output is about as near to float64 as the source's. False where there is no such output."""
    if left.dtype.kind in "biu":
        return False
    try:
        outputs = exact()
    except (Exception, SystemExit):  # a function that takes no float64 has no such reference
        return False
    if len(outputs) <= place or outputs[place].shape != left.shape or outputs[place].dtype.kind not in "fc":
        return False
    mine, theirs = _distance(outputs[place], left), _distance(outputs[place], right)
    return bool(np.all(theirs <= np.maximum(limit, _AS_EXACT * _largest_finite(mine))))


def _largest_finite(distances: Array) -> Array:
    """The largest finite distance, for every element; infinity for elements whose own distance is infinite."""
    finite = np.isfinite(distances)
    return np.where(finite, np.max(distances[finite], initial=0.0), math.inf)


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _distance(left: Array, right: Array) -> Array:
    """The distance of each element; 0 for equal ones, two NaN too, and infinity where one alone is not finite."""
    one, other = _wide(left), _wide(right)
    with np.errstate(all="ignore"):
        distance = np.abs(one - other)
    equal = (one == other) | (np.isnan(one) & np.isnan(other))
    odd = ~(np.isfinite(one) & np.isfinite(other))
    return cast("Array", np.where(equal, 0.0, np.where(odd, math.inf, distance)))


def _limit(array: Array) -> Array:
    """What the frameworks' tests allow. Integers are equal or not."""
    if array.dtype.kind in "biu":
        return np.zeros(array.shape)
    relative, absolute = _TOLERANCES.get(array.dtype.name, _TOLERANCE)
    return np.asarray(absolute + relative * np.nan_to_num(np.abs(_wide(array)), nan=0.0, posinf=0.0))


def same_bits(left: Array, right: Array) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return bool(np.all(left == right)) if left.dtype.kind == "O" else left.tobytes() == right.tobytes()


def form_of(array: Array) -> str:
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def line_of(error: BaseException) -> str:
    """An error on one line, without paths of this machine."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return _PATH.sub("…", text)[:400]
