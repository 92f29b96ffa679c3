"""Monte Carlo replays: how far the outputs move when every operator errs by its own typical error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from mindgap.oracle.classes import class_bits
from mindgap.oracle.float64 import Float64Graph
from mindgap.oracle.shadow import Decisions, Stepwise, impose, round_to

#: Whole discrete outputs are kept per replay up to this many elements; past it their range is.
MAX_KEPT = 1 << 20


@lru_cache(maxsize=1)
def _sign_pool() -> torch.Tensor:
    """±1, float32, a prime number of them so that stretches of equal length rarely meet again."""
    generator = torch.Generator().manual_seed(0xC0FFEE)
    return torch.empty(4_194_301).bernoulli_(0.5, generator=generator).mul_(2).sub_(1)


class Replays:
    """Replays of one graph, more on request. Watches the given values.

    For each float value: the sum of squared distances to S over the replays where both are finite, how many those
    were, and the classes seen. For each discrete value: the values seen. `noise`: error to inject by value number.
    """

    def __init__(
        self,
        graph: Float64Graph,
        inputs: Sequence[torch.Tensor],
        clean: Stepwise,
        noise: Mapping[int, torch.Tensor],
        watched: frozenset[int],
        decisions: Decisions | None = None,
    ) -> None:
        self._graph, self._inputs, self._clean, self._noise = graph, inputs, clean, noise
        self._decisions = decisions or {}
        self._watched = watched
        self._generator = torch.Generator().manual_seed(0xC0FFEE)
        self._quiet = {number for number, size in noise.items() if bool((size == 0).any())}
        self.count = 0
        self.squares: dict[int, torch.Tensor] = {}
        self.finite: dict[int, torch.Tensor] = {}
        self.classes: dict[int, torch.Tensor] = {}
        self.seen: dict[int, list[torch.Tensor]] = {}

    def ensure(self, count: int) -> None:
        """At least this many replays."""
        # Without noise every replay is S itself: one says it all.
        while self.count < (count if self._noise else 1):
            self._once()
            self.count += 1

    def sigma(self, number: int) -> torch.Tensor:
        """RMS distance to S of one watched float value, elementwise, 0 where no replay was finite."""
        return (self.squares[number] / self.finite[number].clamp_min(1)).sqrt()

    def _once(self) -> None:
        starts = self._graph.graph.first_value

        def after(index: int, results: list[Any]) -> list[Any]:
            call, first = self._graph.calls[index], starts[index]
            noisy = [self._disturb(first + slot, y) for slot, y in enumerate(results)]
            settled = [round_to(y, spec) for y, spec in zip(noisy, call.node.outputs, strict=True)]
            return impose(first, settled, self._decisions)

        self._record(self._graph.run(self._inputs, after, keep=self._watched))

    def _disturb(self, number: int, y: Any) -> Any:
        size = self._noise.get(number)
        if size is None or not isinstance(y, torch.Tensor) or size.shape != y.shape:
            return y
        signs = self._signs(y.numel()).reshape(y.shape)
        if y.is_complex():
            # Either part errs by as much as the whole: products of parts cancel.
            signs = torch.complex(signs.to(torch.float64), self._signs(y.numel()).reshape(y.shape).to(torch.float64))
        noisy = y + signs * size
        # Where nothing is injected the bits stay: adding zero would erase the sign of -0.
        return torch.where(size > 0, noisy, y) if number in self._quiet else noisy

    def _signs(self, count: int) -> torch.Tensor:
        """Random signs: a stretch of a fixed pool from a random place, drawn anew for every value of every replay."""
        pool = _sign_pool()
        if count > len(pool) // 2:
            pool = pool.repeat(2 * count // len(pool) + 1)
        start = int(torch.randint(len(pool) - count, (), generator=self._generator))
        return pool[start : start + count]

    def _record(self, values: Mapping[int, Any]) -> None:
        for number in self._watched:
            y, clean = values[number], self._clean.wide(number)
            if not isinstance(y, torch.Tensor):
                continue
            if y.shape != clean.shape:
                continue
            if y.is_floating_point() or y.is_complex():
                self._record_float(number, y, clean)
            else:
                self._record_discrete(number, y)

    def _record_float(self, number: int, y: torch.Tensor, clean: torch.Tensor) -> None:
        both = torch.isfinite(y) & torch.isfinite(clean)
        square = torch.where(both, (y - clean).abs() ** 2, 0.0)
        square = square.real if square.is_complex() else square
        if number not in self.squares:
            self.squares[number], self.finite[number] = square, both.to(torch.int32)
            self.classes[number] = class_bits(y)
        else:
            self.squares[number] += square
            self.finite[number] += both
            self.classes[number] |= class_bits(y)

    def _record_discrete(self, number: int, y: torch.Tensor) -> None:
        kept = self.seen.setdefault(number, [])
        if y.numel() <= MAX_KEPT:
            if not any(torch.equal(y, old) for old in kept):
                kept.append(y)
        elif not kept:
            kept.extend((y, y))
        else:
            kept[0], kept[1] = torch.minimum(kept[0], y), torch.maximum(kept[1], y)
