"""Locates a difference that a mask among the inputs explains: only at positions that are not to be read.

A padded position has an output too, and so has a row of attention that its mask lets nothing through. What they hold is
often undefined, and the next layer leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np

from mindgap.aten.tensors import to_torch
from mindgap.graph import Graph
from mindgap.judge.oracle.evaluation.formats import widen
from mindgap.judge.trace.subgraphs import Array

#: What is further off than this, of the largest magnitude, is looked at.
_FAR: Final = 1e-3
#: Elements of an array that is looked at.
_MOST: Final = 1 << 22
_Mask = np.ndarray[Any, np.dtype[np.bool_]]


def masked_places(graph: Graph, inputs: Sequence[Array], ours: Sequence[Array], theirs: Sequence[Array]) -> str:
    """Returns the places of all that differs, such as "only where `attention_mask` is 0"; empty where no mask among the
    inputs has them all. `ours`, `theirs`: outputs in the graph's order."""
    different = [mask for a, b in zip(ours, theirs, strict=True) if (mask := _different(a, b)) is not None]
    if not different:
        return ""
    named = zip(graph.inputs, inputs, graph.labels.inputs or [""] * len(graph.inputs), strict=False)
    for number, (given, array, name) in enumerate(named):
        if given.role != "input":
            continue
        for closed, words in _closed(array):
            if all(_covers(closed, mask) for mask in different):
                return f"only {words.format(f'`{name or number}`')}"
    return ""


def _different(ours: Array, theirs: Array) -> _Mask | None:
    """The elements of an output that are far apart; None without any. All of them, for another shape and for more
    elements than are looked at."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype or ours.size > _MOST:
        return np.ones(ours.shape, np.bool_)
    a, b = (widen(to_torch(each)).numpy() for each in (ours, theirs))
    with np.errstate(all="ignore"):
        finite = np.isfinite(a) & np.isfinite(b) if a.dtype.kind in "fc" else np.ones(a.shape, np.bool_)
        equal = (a == b) | ((a != a) & (b != b))
        gap = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
        largest = float(np.abs(b[finite]).max(initial=0)) or 1.0
        mask = ~equal & (~finite | (gap > _FAR * largest))
    return mask if bool(mask.any()) else None


def _closed(array: Array) -> Iterator[tuple[_Mask, str]]:
    """The places that a mask closes, and the rows that it lets nothing through, with the words for them. None for an
    array that is no mask: truth values, zeros and ones, or zeros and very negative numbers."""
    values = to_torch(array)
    if array.ndim < 1 or not 1 < array.size <= _MOST or values.is_complex():
        return
    wide = widen(values).numpy()
    if array.dtype == np.bool_ or bool(np.isin(wide, (0, 1)).all()):
        closed, words = wide == 0, "where {} is 0"
        if not bool(closed.all()):
            yield ~closed, "where {} is 1"  # PyTorch's masks of padding are so
    elif bool(((wide == 0) | (wide <= -1e4)).all()):
        closed, words = wide != 0, "where {} is not 0"
    else:
        return
    if bool(closed.any()) and not bool(closed.all()):
        yield closed, words
    if array.ndim >= 2 and bool((rows := closed.all(-1)).any()):
        yield rows, "in rows that {} lets nothing through"


def _covers(closed: _Mask, different: _Mask) -> bool:
    """Whether some dimensions of an output, in order, are those of a mask, whose closed places then have all that
    differs."""
    places = closed.reshape([size for size in closed.shape if size != 1])
    if not places.ndim or bool(places.all()):
        return False
    for dims in combinations(range(different.ndim), places.ndim):
        if tuple(different.shape[dim] for dim in dims) == places.shape:
            shape = [size if dim in dims else 1 for dim, size in enumerate(different.shape)]
            if not bool((different & ~places.reshape(shape)).any()):
                return True
    return False
