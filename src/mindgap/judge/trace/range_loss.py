"""Recognises results that are infinite, NaN, zero or wrong only because a value between two operators left its range.

Eager mode rounds every result to the dtype that it declares: in float16, x*x*0.001 is infinite from x = 256 on. A
compiler may keep float32 from one operator to the next, and gives what float64 gives. Each of its operators is right,
and so is the order in which it computes. What is wrong is the result of the operator that overflows, or underflows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph import Graph, dtype_name
from mindgap.graph.compare.culprit import Example
from mindgap.judge.oracle import Examined, Expectation, Oracle, OracleError, examine, rounding_limit
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real, rounded, widen
from mindgap.judge.oracle.examination import SIGMAS
from mindgap.judge.oracle.float_classes import class_bits
from mindgap.judge.trace.dtype_policy import converted, retyped
from mindgap.judge.trace.subgraphs import Array, leading_to, values_after

#: A dtype -> one with a larger range, in which the same graph shows how far rounding leads. float32 holds sums and
#: products of float16 that float16 rounds.
_LARGER: Final[Mapping[str, str]] = {"float16": "bfloat16", "bfloat16": "float64", "float32": "float64"}
#: Nodes that are tried as the one whose range is left first.
_MOST_NODES: Final = 24


@dataclass(frozen=True)
class RangeLoss:
    """`node`: the first operator that leaves the range of its `dtype` and so changes the outputs. `masks`: by position
    of an output, the elements at which the platform is right and the graph as declared is not. `example`: one of these.
    """

    node: int
    dtype: str
    masks: Mapping[int, torch.Tensor]
    example: Example

    def spared(self, examined: Sequence[Examined]) -> list[Examined]:
        """What was examined, where the elements of the masks are no error."""
        return [_spared(one, self.masks.get(position)) for position, one in enumerate(examined)]

    def sentence(self, op: str, label: str) -> str:
        """Why the outputs differ. `op`, `label`: of the operator."""
        masks = self.masks.values()
        count, total = sum(int(mask.sum()) for mask in masks), sum(map(torch.numel, masks))
        return (
            f"the reference leaves the range of {self.dtype} at {op}{f' ({label})' if label else ''}, and the platform "
            f"keeps a larger one: {self.example.given} is {self.example.got} on the reference; right is "
            f"{self.example.right}, as here; {count} of {total} elements"
        )


class UnlimitedRange:
    """One graph computed as declared, but for the limits of its floating dtypes' ranges.

    `inputs`: every input of the graph.
    """

    def __init__(self, oracle: Oracle, inputs: Sequence[Array]) -> None:
        self._oracle, self._inputs = oracle, inputs

    def loss(self, ours: Sequence[Array], theirs: Sequence[Array]) -> RangeLoss | None:
        """Where `ours` is right without limits of range and `theirs` is not; None where that is nowhere.

        `ours`, `theirs`: in the order of the graph's outputs.
        """
        if not self._oracle.step.out_of_range or not len(ours) == len(theirs) == len(self._oracle.graph.outputs):
            return None
        try:
            pairs = enumerate(zip(ours, theirs, strict=True))
            masks = {n: mask for n, (a, b) in pairs if (mask := self._shown(n, a, b)) is not None}
            node = self._cause(masks) if masks else None
        except (OracleError, RuntimeError, IndexError):
            # Without limits another branch or size may follow, which is no explanation.
            return None
        if node is None:
            return None
        spec = self._oracle.graph.nodes[node].outputs[0]
        return RangeLoss(node, spec.dtype if spec else "", masks, self._example(masks, theirs))

    @cached_property
    def _right(self) -> dict[int, torch.Tensor]:
        return self._oracle.unlimited()

    @cached_property
    def _larger(self) -> tuple[Oracle, float]:
        """The graph in dtypes of a larger range, and the size of the declared roundings as a multiple of the
        graph's."""
        graph, inputs, ratios = self._oracle.graph, list(self._inputs), list[float]()
        nodes = [graph.nodes[index] for index in self._oracle.step.out_of_range]
        left = {spec.dtype for node in nodes for spec in node.outputs if spec is not None}
        for dtype in [each for each in ("float32", "bfloat16", "float16") if each in left]:
            larger = _LARGER[dtype]
            inputs = [converted(a, larger) if dtype_name(a.dtype) == dtype else a for a in inputs]
            graph = retyped(graph, dtype, larger)
            ratios.append(FORMATS[dtype].u / FORMATS[larger].u)
        return Oracle(graph, inputs, decisions=self._oracle.imposed), max(ratios, default=1.0)

    def _shown(self, position: int, ours: Array, theirs: Array) -> torch.Tensor | None:
        """The elements of an output at which `ours` is right without limits and `theirs` is not; None without any."""
        number = self._oracle.graph.outputs[position]
        step, spec, right = self._oracle.step.wide(number), self._oracle.graph.values[number], self._right[number]
        if spec is None or not ours.shape == theirs.shape == tuple(step.shape) == tuple(right.shape):
            return None
        a, b = widen(to_torch(ours)), widen(to_torch(theirs))
        if not is_real(spec.dtype):
            return _any((a == right) & (b != right))
        fmt, final = FORMATS[spec.dtype], rounded(right, spec.dtype)
        changed = _another(step, final, 4 * fmt.u * torch.maximum(step.abs(), final.abs()) + fmt.tiny)
        if not bool((changed & _another(a, b, torch.zeros(()))).any()):
            return None
        expected = self._expected(number, spec.dtype, final, right)
        mine, other = examine(expected, to_torch(ours)), examine(expected, to_torch(theirs))
        if mine.ill or mine.bad is None or other.bad is None:
            return None
        # What rounding to the subnormal numbers of the dtype explains is no loss of range.
        limit = torch.maximum(rounding_limit(expected), rounding_limit(self._oracle.expectation(number)))
        return _any(changed & ~mine.bad & other.bad & _another(step, final, limit))

    def _expected(self, number: int, dtype: str, final: torch.Tensor, right: torch.Tensor) -> Expectation:
        """What an output may be without limits of range. It is rounded to its dtype at the end all the same."""
        larger, ratio = self._larger
        sigma, wide = ratio * larger.expectation(number).sigma, widen(self._oracle.wide[number])
        # A cast keeps its range in the wide shadow.
        wide = torch.where(torch.isfinite(wide), wide, right) if wide.shape == right.shape else right
        ends = [class_bits(rounded(right + side * SIGMAS * sigma, dtype)) for side in (-1, 0, 1)]
        classes = ends[0] | ends[1] | ends[2] | class_bits(rounded(wide, dtype))
        return Expectation(dtype, final, wide, sigma, classes, ())

    def _cause(self, masks: Mapping[int, torch.Tensor]) -> int | None:
        """The first node whose limits alone change the elements of the masks."""
        graph = self._oracle.graph
        numbers = {graph.outputs[position]: mask for position, mask in masks.items()}
        nodes = [n for n in leading_to(graph, list(numbers)) if n in self._oracle.step.out_of_range]
        for node in nodes[:_MOST_NODES]:
            limited = self._oracle.unlimited({node})
            if any(self._changed(number, limited[number], mask) for number, mask in numbers.items()):
                return node
        return nodes[0] if nodes else None

    def _changed(self, number: int, value: torch.Tensor, mask: torch.Tensor) -> bool:
        right = self._right[number]
        return bool((_another(value, right, 1e-2 * right.abs()) & mask).any())

    def _example(self, masks: Mapping[int, torch.Tensor], theirs: Sequence[Array]) -> Example:
        position, mask = next(iter(masks.items()))
        at = np.unravel_index(int(mask.flatten().to(torch.uint8).argmax()), mask.shape)
        right = self._right[self._oracle.graph.outputs[position]][at]
        index = f"element {[int(i) for i in at]} of " if at else ""
        return Example(f"{index}output {position}", str(theirs[position][at]), f"{right.item():.6g}")


def infected(graph: Graph, node: int) -> frozenset[int]:
    """The nodes that a node's result leads to."""
    return frozenset(graph.producer[number] for number in values_after(graph, graph.results(node)))


def _another(a: torch.Tensor, b: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Where two values are of other classes, or further apart than the limit."""
    other = class_bits(a) != class_bits(b) if a.is_floating_point() or a.is_complex() else torch.zeros(a.shape).bool()
    distance = (a - b).abs() if a.dtype != torch.bool else (a != b).to(torch.float64)
    return other | (distance > limit)


def _any(mask: torch.Tensor) -> torch.Tensor | None:
    return mask if bool(mask.any()) else None


def _spared(one: Examined, mask: torch.Tensor | None) -> Examined:
    if mask is None or (one.bad is None and one.kind != "calm"):
        return one
    bad = None if one.bad is None else one.bad & ~mask
    wrong = bad is not None and bool(bad.any())
    return replace(one, bad=bad) if wrong else Examined("calm", bad)
