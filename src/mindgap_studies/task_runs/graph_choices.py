"""Finds the near ties of a detector's graph: the choices within it that rounding may turn, for each sample.

A choice is a comparison (of overlaps, scores, windows) or an order (`topk`, `sort`, `argmax`). Both of its operands are
bounded by the oracle. Two different numbers that are equal once they are rounded are the nearest tie there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.graph import Graph, Ref, operands
from mindgap.graph.operators import traits
from mindgap.judge.oracle import Oracle, OracleError, ordered_rows, rounding_limit
from mindgap.judge.oracle.evaluation.float64 import bind_call, evaluate, neutral_float64, packet_of
from mindgap.judge.oracle.evaluation.formats import is_real

#: These change the sign, and so the order, of what they move.
_CHANGE_SIGN: Final = frozenset({"neg", "negative", "abs", "absolute"})


@dataclass(frozen=True, slots=True)
class Tie:
    """Two numbers that rounding may bring into another order. what: they are, in words. label: of the detection, -1
    where it is a choice within the graph. margin: how far they are apart; limit: how far rounding can move them."""

    what: str
    label: int
    margin: float
    limit: float

    @property
    def ratio(self) -> float:
        """1 or less where rounding can turn it."""
        return self.margin / self.limit if self.limit > 0 and math.isfinite(self.margin) else math.inf


def movements(graph: Graph, numbers: Iterable[int]) -> frozenset[int]:
    """Returns the nodes that lead to values by moving elements alone: selecting, repeating, taking the largest."""
    found = set[int]()
    waiting = list(numbers)
    while waiting:
        index = graph.producer[waiting.pop()]
        if index < 0 or index in found:
            continue
        node = graph.nodes[index]
        if traits(node.op).moves_data and packet_of(node.op) not in _CHANGE_SIGN:
            found.add(index)
            waiting += [number for number in operands(node) if _is_real(graph, number)]
    return frozenset(found)


def watched_values(graph: Graph, slots: Mapping[int, int]) -> list[int]:
    """Returns the values that an oracle has to watch for `choice_ties`: what choices are made of, and what that comes
    from. `slots`: of the graph (`decision_slots`)."""
    found = list(dict.fromkeys(each for index in slots.values() for each in operands(graph.nodes[index])))
    return list(dict.fromkeys([*found, *_moved_from(graph, movements(graph, found))]))


def _moved_from(graph: Graph, moved: Iterable[int]) -> list[int]:
    """The values that movements read and do not make."""
    made = {number for index in moved for number in graph.results(index)}
    return list(dict.fromkeys(n for index in moved for n in operands(graph.nodes[index]) if n not in made))


def choice_ties(graph: Graph, slots: Mapping[int, int], oracle: Oracle, batch: int) -> list[list[Tie | None]]:
    """Returns for each choice of the graph the nearest tie of each place in the batch; None where it has none.

    `oracle`: of the graph, which watches `slots` and `watched_values`.
    """
    return [_Choice(graph, oracle, number, index).nearest(batch) for number, index in slots.items()]


@dataclass(frozen=True)
class _Choice:
    """A value that rounding may turn, and the node that gives it."""

    graph: Graph
    oracle: Oracle
    number: int
    index: int

    def nearest(self, batch: int) -> list[Tie | None]:
        node, labels = self.graph.nodes[self.index], self.graph.labels.nodes
        named = labels[self.index] if labels else ""
        what = f"{node.op}{f' ({named})' if named else ''}"
        decides = traits(node.op).decides
        if decides == "comparison":
            return _nearest(what, *self._compared(), batch)
        if decides == "order" and isinstance(node.args[0], Ref):
            return _nearest(what, *self._ordered(node.args[0]), batch)
        value = self.oracle.step.wide(self.number)
        turned = [each != value for each in self.oracle.replays.seen.get(self.number, ()) if each.shape == value.shape]
        margins = torch.ones(value.shape) if not turned else 1.0 - torch.stack(turned).any(0).double()
        return _nearest(what, margins, torch.full(value.shape, 0.5), batch)

    def _compared(self) -> tuple[torch.Tensor, torch.Tensor]:
        ours, theirs = self.graph.nodes[self.index].args[:2]
        (a, reach_a), (b, reach_b) = self._operand(ours), self._operand(theirs)
        margins, limits = (a - b).abs(), reach_a + reach_b
        if isinstance(ours, Ref) and isinstance(theirs, Ref) and bool((margins == 0).any()):
            first, second = self._elements(ours.index, theirs.index)
            margins = torch.where((margins == 0) & (first == second), torch.inf, margins)
        return margins, limits

    def _ordered(self, operand: Ref) -> tuple[torch.Tensor, torch.Tensor]:
        """Neighbours in the order of which one is chosen at least."""
        x, reach = self._operand(operand)
        if not x.dim():
            return torch.zeros(0), torch.zeros(0)

        def lookup(number: int) -> tuple[torch.Tensor, torch.Tensor]:
            return (x, reach) if number == operand.index else (self.oracle.step.wide(number), torch.zeros(()))

        rows = ordered_rows(self.graph, self.number, lookup)
        taken = torch.zeros(rows.x.shape, dtype=torch.bool).scatter(rows.dim, rows.exact, value=True)
        values, order = rows.x.sort(dim=rows.dim, stable=True)
        reach, taken = (each.gather(rows.dim, order).movedim(rows.dim, -1) for each in (rows.sigma, taken))
        values = values.movedim(rows.dim, -1)
        margins, limits = values[..., 1:] - values[..., :-1], reach[..., 1:] + reach[..., :-1]
        margins = torch.where(taken[..., 1:] | taken[..., :-1], margins, torch.inf)
        if bool((margins == 0).any()):
            (names,) = self._elements(operand.index)
            names = names.reshape(rows.x.shape).gather(rows.dim, order).movedim(rows.dim, -1)
            margins = torch.where((margins == 0) & (names[..., 1:] == names[..., :-1]), torch.inf, margins)
        # Along the first dimension examples of the batch are ordered among each other.
        return (margins[None], limits[None]) if rows.dim in (0, -rows.x.dim()) else (margins, limits)

    def _operand(self, argument: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """A value and how far rounding can move it: 0 where that is by subnormals alone, as of a zero that is exact."""
        none = torch.zeros((), dtype=torch.float64)
        if not isinstance(argument, Ref):
            return torch.tensor(float(argument), dtype=torch.float64), none
        spec = self.graph.values[argument.index]
        if spec is None or not is_real(spec.dtype):
            return self.oracle.step.wide(argument.index).double(), none
        expected = self.oracle.expectation(argument.index)
        reach = torch.nan_to_num(rounding_limit(expected), nan=torch.inf)
        still = (expected.step == 0) & (expected.wide == 0) & (expected.sigma == 0)
        return expected.step, torch.where(still, 0.0, reach)

    def _elements(self, *numbers: int) -> list[torch.Tensor]:
        """Names the elements of values by where they come from: equal names are one element of one value.

        The values that the movements begin with get their ranks in place of their elements, each rank once. Whatever
        selects by size selects the same elements of them. Where that cannot be computed all are others.
        """
        moved = sorted(movements(self.graph, numbers))
        begin = [*_moved_from(self.graph, moved), *(n for n in numbers if self.graph.producer[n] not in moved)]
        values = {number: self.oracle.step.wide(number) for number in begin}
        begun = {number: value for number, value in values.items() if _is_real(self.graph, number)}
        if begun:
            every = torch.cat([value.flatten() for value in begun.values()])
            ranks = torch.empty_like(every)
            ranks[every.argsort(stable=True)] = torch.arange(1, len(every) + 1, dtype=every.dtype)
            start = 0
            for number, value in begun.items():
                values[number] = ranks[start : start + value.numel()].reshape(value.shape)
                start += value.numel()
        try:
            with neutral_float64():
                for index in moved:
                    call = bind_call(self.graph, self.graph.nodes[index])
                    values.update(enumerate(evaluate(call, *call.bind(values)), self.graph.first_value[index]))
        except (OracleError, RuntimeError, IndexError):
            return [torch.full(self.oracle.step.wide(number).shape, torch.nan) for number in numbers]
        return [values[number] for number in numbers]


def _is_real(graph: Graph, number: int) -> bool:
    spec = graph.values[number]
    return spec is not None and is_real(spec.dtype)


def _nearest(what: str, margins: torch.Tensor, limits: torch.Tensor, batch: int) -> list[Tie | None]:
    """The nearest tie of each place. Elements of a place lie together, whatever the shape behind it."""
    limits = limits.expand(margins.shape)
    if not margins.numel():
        return [None] * batch
    rows = batch if margins.dim() and margins.shape[0] % batch == 0 else 1
    margins, limits = margins.reshape(rows, -1), limits.reshape(rows, -1)
    ratios = torch.where((limits > 0) & torch.isfinite(margins), margins / limits, torch.inf)
    least, at = ratios.min(-1, keepdim=True)
    margins, limits = margins.gather(1, at), limits.gather(1, at)
    ties = [
        Tie(what, -1, float(margins[row, 0]), float(limits[row, 0])) if float(least[row, 0]) < math.inf else None
        for row in range(rows)
    ]
    return ties if rows == batch else ties * batch
