"""Finds the first value that two ONNX files of one model compute differently."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.graph import Array
from mindgap.graph.compare.metrics import distance
from mindgap.onnx_files.cutting import CutModel, cut_model

#: Seconds for the evaluation of each file.
_SECONDS: Final = 20.0
#: Values part where they differ by more than this share of the largest difference that is finite.
_SHARE: Final = 0.01
#: Values that differ by less are equal, of float32.
_EQUAL: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Parting:
    """The first value that parts. `old`, `new`: the nodes that make it, `conv1 (Conv)`. `off`: how far it is apart, of
    its largest magnitude. `by`: `name`, or `value` where it has another name in the new file. `compared`: values that
    were compared."""

    old: str
    new: str
    value: str
    off: float
    by: str
    compared: int


def first_parting(old: Path, new: Path, given: Mapping[str, Array]) -> Parting | str:
    """Evaluates both files node by node, and returns the first value of the old file that parts, in its order.

    Values are matched by name, else by what they compute: a value of the same shape that is equal. Returns a sentence
    where none parts or nothing can be compared. `given`: the inputs by name.
    """
    before, after = (_evaluated(path, given) for path in (old, new))
    if before is None or after is None:
        return "The values inside were not compared: one of the files cannot be cut."
    made = _made(before), _made(after)
    pairs = _pairs(*made)
    offs = {name: distance([_wide(made[0][name])], [_wide(made[1][other])]) for name, other in pairs.items()}
    worst = max(filter(math.isfinite, offs.values()), default=0.0)
    for name in made[0]:
        if offs.get(name, 0.0) > max(_EQUAL, _SHARE * worst):
            by = "name" if name == pairs[name] else "value"
            return Parting(_maker(before, name), _maker(after, pairs[name]), name, offs[name], by, len(offs))
    return f"None of {len(offs)} values that both files compute parts." if offs else "No value inside can be compared."


def _made(model: CutModel) -> dict[str, Array]:
    names = [name for node in model.model.graph.node for name in node.output]
    return {name: model.values[name] for name in names if name in model.values}


def _maker(model: CutModel, name: str) -> str:
    place = next(place for place, node in enumerate(model.model.graph.node) if name in node.output)
    return f"{model.name(place)} ({model.op(place)})"


def _wide(array: Array) -> Array:
    return array.astype("float64") if array.dtype.kind in "fiub" else array


def _pairs(old: Mapping[str, Array], new: Mapping[str, Array]) -> dict[str, str]:
    """For each value of the old file that of the new one: of the same name and shape, else equal."""
    pairs = {name: name for name, array in old.items() if name in new and new[name].shape == array.shape}
    free = {name: array for name, array in new.items() if name not in pairs and array.dtype.kind in "fiub"}
    for name, array in old.items():
        if name in pairs or array.dtype.kind not in "fiub" or not array.size:
            continue
        alike = (other for other, each in free.items() if each.shape == array.shape)
        equal = next((other for other in alike if distance([_wide(array)], [_wide(free[other])]) <= _EQUAL), None)
        if equal is not None:
            pairs[name] = equal
            del free[equal]
    return pairs


def _evaluated(path: Path, given: Mapping[str, Array]) -> CutModel | None:
    """A file with the values of its nodes, but for those that cannot be evaluated."""
    cut, until = cut_model(path, dict(given)), time.monotonic() + _SECONDS
    if isinstance(cut, str):
        return None
    for place, node in enumerate(cut.model.graph.node):
        if time.monotonic() < until and all(name in cut.values for name in node.input if name):
            results = cut.evaluated(place)
            cut.values |= {} if isinstance(results, str) else results
    return cut
