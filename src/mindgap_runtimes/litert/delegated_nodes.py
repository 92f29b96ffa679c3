"""Tells which operators of a model the interpreter's delegate took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mindgap.platforms.delegation import Delegation
from mindgap.platforms.protocol import Fallback

_DELEGATE: Final = "DELEGATE"
_KERNELS: Final = "LiteRT's kernels"


def delegation(nodes: Sequence[Mapping[str, Any]], delegate: str) -> Delegation:
    """Counts the operators of a model by what runs them.

    `nodes`: as the interpreter lists them (`op_name`, `inputs`, `outputs`), those of the model first, then one
    `DELEGATE` for each part that the delegate took. A part holds the nodes between its inputs and its outputs.
    `delegate`: `xnnpack` or `none`. Raises `Fallback` for a delegate that is there against `none`.
    """
    model = {number: node for number, node in enumerate(nodes) if node["op_name"] != _DELEGATE}
    maker = {int(value): number for number, node in model.items() for value in node["outputs"]}
    parts = [node for node in nodes if node["op_name"] == _DELEGATE]
    taken = {number for part in parts for number in _between(part, model, maker)}
    names = {number: str(node["op_name"]) for number, node in model.items()}
    inside = Counter(names[number] for number in sorted(taken))
    outside = Counter(name for number, name in names.items() if number not in taken)
    if delegate == "none":
        if inside:
            raise Fallback(f"LiteRT runs {', '.join(sorted(inside))} on a delegate, where none was asked for")
        return Delegation(_KERNELS, dict(outside))
    return Delegation("XNNPACK", dict(inside), dict(outside), _KERNELS, len(parts))


def _between(part: Mapping[str, Any], model: Mapping[int, Mapping[str, Any]], maker: Mapping[int, int]) -> set[int]:
    """The nodes of the model on which the part's outputs depend, and its inputs do not."""
    seen: set[int] = set()
    known = {int(value) for value in part["inputs"]}
    waiting = [int(value) for value in part["outputs"]]
    while waiting:
        value = waiting.pop()
        number = None if value in known else maker.get(value)
        if number is not None and number not in seen:
            seen.add(number)
            waiting += [int(value) for value in model[number]["inputs"]]
    return seen
