"""Runs Monte Carlo replays: the graph again, with a random error, of the size of its bound, at every operator.

`Noise` draws these errors; operators that are not smooth get more of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import torch

from mindgap.judge.oracle.evaluation.float64 import BoundCall, Float64Graph, evaluate
from mindgap.judge.oracle.evaluation.formats import is_real, rounded, widen
from mindgap.judge.oracle.evaluation.unordered import in_any_order, shuffled
from mindgap.judge.oracle.examination import SIGMAS
from mindgap.judge.oracle.float_classes import FINITE, all_finite, class_bits
from mindgap.judge.oracle.shadows.result_rounding import (
    Decisions,
    impose,
    kept_in_range,
    narrowed,
    round_results,
    round_to,
    rounds,
)
from mindgap.judge.oracle.shadows.segments import replays_at_once
from mindgap.judge.oracle.shadows.stepwise import Noise, Stepwise

#: How much of a jump a replay takes that meets it, so that those which do (a third, far out) make a σ of 1/16 of it.
_OF_A_JUMP: Final = 0.25


def is_non_smooth(call: BoundCall) -> bool:
    """Whether replays of this call see too little."""
    spec = call.node.outputs[0] if len(call.node.outputs) == 1 else None
    return spec is not None and is_real(spec.dtype) and call.traits.non_smooth != ""


def with_distant_operands(
    call: BoundCall,
    args: list[Any],
    kwargs: Mapping[str, Any],
    result: Any,
    clean: Mapping[int, Any],
    base: Any,
    side: int,
) -> Any:
    """A replay's result, moved where its error, 16 times as large, would have moved it.

    `args`, `kwargs`, `result`: the replay's. `clean`: S's values by number; `base`: the exact result on them. `side`: 1
    for where the error points, -1 for the opposite (rounded errors may all point one way). Tensors are float64.
    """
    first, named = call.bind(clean)
    jumps = call.traits.non_smooth == "jumps"
    moving = {call.traits.jumps_at} if jumps else range(len(args))
    times = side * SIGMAS
    far = [
        _far(a, b, times) if position in moving else a for position, (a, b) in enumerate(zip(args, first, strict=True))
    ]
    (reached,) = evaluate(call, far, {name: a if jumps else _far(a, named[name], times) for name, a in kwargs.items()})
    if jumps:
        step = _OF_A_JUMP * (reached - result)
        return torch.where(torch.isfinite(step) & (step != 0), result + step, result)
    step = (reached - base) / SIGMAS
    return torch.where(step.abs() > (result - base).abs(), base + step, result)


def _far(moved: Any, clean: Any, times: float) -> Any:
    """Moves an operand to `times` its distance from the value of the stepwise shadow.

    An element stays where it was if it is not finite, or if the moved one is not.
    """
    if not isinstance(moved, torch.Tensor) or not moved.is_floating_point() or moved.shape != clean.shape:
        return moved
    far = clean + times * (moved - clean)
    return torch.where(torch.isfinite(far), far, moved)


#: Elements that are worked on at a time, so that what is needed on the way stays in the cache.
_CHUNK: Final = 1 << 16


@lru_cache(maxsize=1)
def sign_pool() -> torch.Tensor:
    """±1, float32, a prime number of them so that segments of equal length rarely meet again."""
    generator = torch.Generator().manual_seed(0xC0FFEE)
    return torch.empty(4_194_301).bernoulli_(0.5, generator=generator).mul_(2).sub_(1)


def a_start(count: int, generator: torch.Generator) -> int:
    """A random place in the pool, gone through again and again, where a segment of `count` signs begins."""
    length = len(sign_pool())
    if count > length // 2:
        length *= 2 * count // length + 1
    return int(torch.randint(length - count, (), generator=generator))


def signs(start: int, count: int) -> torch.Tensor:
    """A segment of the pool."""
    pool = sign_pool()
    start %= len(pool)
    if start + count <= len(pool):
        return pool[start : start + count]
    parts = [pool[start:], *[pool] * ((start + count) // len(pool) - 1), pool[: (start + count) % len(pool)]]
    return torch.cat(parts)


def disturbed(y: torch.Tensor, size: torch.Tensor, starts: tuple[int, ...], dtype: str, quiet: bool) -> torch.Tensor:
    """y ± size rounded to `dtype`, held in y's own. `starts`: where its signs lie in the pool, for each part.

    `quiet`: size is zero somewhere; there the bits stay, since adding zero would erase the sign of -0.
    """
    if y.is_complex():
        # Either part errs by as much as the whole: products of parts cancel.
        real, imaginary = (signs(s, y.numel()).reshape(y.shape).to(torch.float64) for s in starts)
        return _plainly(y, torch.complex(real, imaginary), size, dtype, quiet)
    if y.dtype == torch.float64 and y.is_contiguous() and size.is_contiguous() and y.numel() > _CHUNK:
        return _in_chunks(y, size, starts[0], dtype, quiet)
    return _plainly(y, signs(starts[0], y.numel()).reshape(y.shape), size, dtype, quiet)


def _plainly(y: torch.Tensor, chosen: torch.Tensor, size: torch.Tensor, dtype: str, quiet: bool) -> torch.Tensor:
    moved = y + chosen * size
    return rounded(torch.where(size > 0, moved, y) if quiet else moved, dtype)


def _in_chunks(y: torch.Tensor, size: torch.Tensor, start: int, dtype: str, quiet: bool) -> torch.Tensor:
    moved = torch.empty_like(y)
    flat, error, result = y.view(-1), size.view(-1), moved.view(-1)
    for first in range(0, y.numel(), _CHUNK):
        part = slice(first, min(first + _CHUNK, y.numel()))
        step = (signs(start + first, part.stop - first) * error[part]).to(torch.float64).add_(flat[part])
        if quiet:
            step = torch.where(error[part] > 0, step, flat[part])
        result[part] = rounded(step, dtype)
    return moved


#: Whole discrete outputs are kept per replay up to this many elements; past it their range is.
MAX_KEPT: Final = 1 << 20


@dataclass(frozen=True)
class _RunningReplay:
    """One replay under way. `values`: what is alive; `starts`: where each value's signs begin in the pool; `side`: 1 in
    every other replay, else -1."""

    values: dict[int, Any]
    starts: dict[int, tuple[int, ...]]
    side: int


class Replays:
    """Replays of one graph, more on request. Watches the given values.

    For each float value: the sum of squared distances to S over the replays where both are finite, how many those
    were, and the classes seen. For each discrete value: the values seen. `noise`: which bounds to inject. Where S does
    not hold these for the whole graph, several replays go through it side by side, a segment of S at a time.
    `wide`: replay W instead, whose values these are: explicit casts do not round, and distances are to W.
    `keep`: watched values of which `kept` holds what each replay gave, in the order of the replays.
    """

    def __init__(
        self,
        graph: Float64Graph,
        inputs: Sequence[torch.Tensor],
        clean: Stepwise,
        noise: Noise,
        watched: frozenset[int],
        decisions: Decisions | None = None,
        wide: Mapping[int, Any] | None = None,
        keep: frozenset[int] = frozenset(),
    ) -> None:
        self._graph, self._inputs, self._clean, self._wide = graph, inputs, clean, wide
        self._noise = clean.typical if noise == "typical" else clean.hard
        self._decisions = decisions or {}
        self._watched = watched
        whole = clean.holds(noise)
        self._parts = (range(len(graph.calls)),) if whole else clean.parts
        self._together = 1 if whole else replays_at_once(graph.graph, clean.parts)
        # Without noise nothing is a little away from S.
        self._non_smooth = [bool(self._noise) and is_non_smooth(call) for call in graph.calls]
        starts = graph.graph.first_value
        self._free = [in_any_order(c.node) and starts[i] + 1 not in self._decisions for i, c in enumerate(graph.calls)]
        self._generator = torch.Generator().manual_seed(0xC0FFEE)
        self._quiet: dict[int, bool] = {}
        self.count = 0
        self.kept: dict[int, list[torch.Tensor]] = {number: [] for number in keep}
        self.squares: dict[int, torch.Tensor] = {}
        self.finite: dict[int, torch.Tensor] = {}
        self.classes: dict[int, torch.Tensor] = {}
        self.seen: dict[int, list[torch.Tensor]] = {}
        #: Watched values that some replay gave another shape, and why they are not covered by it.
        self.uncovered: dict[int, str] = {}

    def ensure(self, count: int) -> None:
        """At least this many replays."""
        # Without noise and orders that are free every replay is S itself: one is enough.
        wanted = count if self._noise or any(self._free) else 1
        while self.count < wanted:
            together = min(self._together, wanted - self.count)
            self._replay(together)
            self.count += together

    def sigma(self, number: int) -> torch.Tensor:
        """RMS distance to S of one watched float value, elementwise.

        Infinite where S is finite and no replay is: somewhere on the way rounding decides what overflows, and what is
        left where nothing does may be anything. 0 where S is not finite. Infinite also where every replay had another
        shape.
        """
        if number not in self.squares and number in self.uncovered:
            return torch.full(self._centre(number).shape, torch.inf, dtype=torch.float64)
        sigma = (self.squares[number] / self.finite[number].clamp_min(1)).sqrt()
        lost = self.finite[number] == 0
        if not bool(lost.any()):
            return sigma
        return torch.where(lost & torch.isfinite(self._centre(number)), torch.inf, sigma)

    def _centre(self, number: int) -> torch.Tensor:
        """What distances of a watched value are to."""
        return self._clean.wide(number) if self._wide is None else widen(self._wide[number])

    def _replay(self, count: int) -> None:
        running = [
            _RunningReplay(dict(enumerate(self._inputs)), self._starts(), 1 if (self.count + number) % 2 else -1)
            for number in range(count)
        ]
        for replay in running:
            for number in self._watched & replay.values.keys():
                self._record(number, widen(replay.values[number]))
        for nodes in self._parts:
            for replay in running:
                self._advance(replay, nodes)

    def _starts(self) -> dict[int, tuple[int, ...]]:
        """Random signs for every value of a replay: where in the pool they begin, for each part of a number."""
        starts: dict[int, tuple[int, ...]] = {}
        for number in self._noise:
            count, parts = self._clean.sizes[number]
            starts[number] = tuple(a_start(count, self._generator) for _ in range(parts))
        return starts

    def _advance(self, replay: _RunningReplay, nodes: range) -> None:
        """One replay through one segment; what it leaves behind is as small as its dtypes allow."""
        graph = self._graph.graph
        fresh = set[int]()

        def before(index: int, call: BoundCall, args: list[Any], kwargs: dict[str, Any], results: list[Any]) -> None:
            if self._non_smooth[index]:
                base = self._clean.exact(graph.first_value[index])
                results[0] = with_distant_operands(
                    call, args, kwargs, results[0], self._clean.values, base, replay.side
                )

        def after(index: int, results: list[Any]) -> list[Any]:
            first = graph.first_value[index]
            call, settled = self._graph.calls[index], self._settled(replay, index, results)
            settled = shuffled(call.node, settled, self._generator) if self._free[index] else settled
            final = impose(call, first, settled, self._decisions)
            for slot, y in enumerate(final):
                self._record(first + slot, y)
                fresh.add(first + slot)
            return final

        self._graph.advance(nodes, replay.values, after, before=before)
        if nodes is self._parts[-1]:
            replay.values.clear()
        if self._wide is not None:
            return
        for number in fresh & replay.values.keys():
            replay.values[number] = narrowed(replay.values[number], graph.values[number])

    def _settled(self, replay: _RunningReplay, index: int, results: list[Any]) -> list[Any]:
        """Results disturbed and rounded."""
        call, first = self._graph.calls[index], self._graph.graph.first_value[index]
        if self._wide is not None and call.traits.casts:
            return [kept_in_range(y, spec) for y, spec in zip(results, call.node.outputs, strict=True)]
        if not any(first + slot in replay.starts for slot in range(len(results))):
            return round_results(call, results)
        final = round_results(call, [None if first + slot in replay.starts else y for slot, y in enumerate(results)])
        for slot, y in enumerate(results):
            if first + slot in replay.starts:
                final[slot] = self._disturbed(replay, first + slot, y)
        return final

    def _disturbed(self, replay: _RunningReplay, number: int, y: Any) -> Any:
        spec, size = self._graph.graph.values[number], self._noise[number]
        if not isinstance(y, torch.Tensor) or spec is None or size.shape != y.shape or not rounds(y, spec):
            return round_to(y, spec)
        if number not in self._quiet:
            self._quiet[number] = bool((size == 0).any())
        return disturbed(y, size, replay.starts[number], spec.dtype, self._quiet[number])

    def _record(self, number: int, y: Any) -> None:
        if number not in self._watched or not isinstance(y, torch.Tensor):
            return
        if number in self.kept:
            self.kept[number].append(narrowed(y, self._graph.graph.values[number]))
        clean = self._centre(number)
        if y.shape != clean.shape:
            shapes = f"{list(y.shape)} instead of {list(clean.shape)}"
            self.uncovered.setdefault(number, f"rounding noise changes the shape of a result: {shapes}")
            return
        if y.is_floating_point() or y.is_complex():
            self._record_float(number, y, clean)
        else:
            self._record_discrete(number, y)

    def _record_float(self, number: int, y: torch.Tensor, clean: torch.Tensor) -> None:
        if all_finite(y) and all_finite(clean):
            square, both = (y - clean).abs().square_(), torch.ones((), dtype=torch.bool).expand(y.shape)
            bits = torch.full((), FINITE, dtype=torch.uint8).expand(y.shape)
        else:
            both = torch.isfinite(y) & torch.isfinite(clean)
            square, bits = torch.where(both, (y - clean).abs() ** 2, 0.0), class_bits(y)
        if number not in self.squares:
            self.squares[number], self.finite[number] = square, both.to(torch.uint8)
            self.classes[number] = bits.clone()
        else:
            self.squares[number] += square
            self.finite[number] += both
            self.classes[number] |= bits

    def _record_discrete(self, number: int, y: torch.Tensor) -> None:
        kept = self.seen.setdefault(number, [])
        if y.numel() <= MAX_KEPT:
            if not any(torch.equal(y, old) for old in kept):
                kept.append(y)
        elif not kept:
            kept.extend((y, y))
        else:
            kept[0], kept[1] = torch.minimum(kept[0], y), torch.maximum(kept[1], y)
